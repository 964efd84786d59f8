#!/usr/bin/env python3
"""Waits until a metric has a value: metric.py HOST:PORT NAME VALUE, or VALUE+ for at least that much. Exit status 1
where it never has.
"""

import sys
import time
import urllib.request

WAIT_SECONDS = 60

address, name, value = sys.argv[1:]
wanted, or_more = float(value.removesuffix("+")), value.endswith("+")
seen = None
end = time.monotonic() + WAIT_SECONDS
while time.monotonic() < end:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        # Not yet, or not any more.
        lines = []
    seen = next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), None)
    if seen is not None and (seen == wanted or or_more and seen > wanted):
        print(f"{address}: {name} is {seen:g}")
        sys.exit()
    time.sleep(0.2)
sys.exit(f"{address}: {name} is {seen}, not {value}, after {WAIT_SECONDS} s")
