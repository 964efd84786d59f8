#!/usr/bin/env python3
"""Takes an epoch of what is published, with the client of the PyPI package tensorcom, and compares every sample
with a run on this machine: subscriber.py URL REFERENCE.jsonl. Exit status 1 where they differ.
"""

import json
import sys
from pathlib import Path

import zmq
from tensorcom import Connection

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "publish"))
from digests import digests

WAIT_MS = 120_000

url, path = sys.argv[1:]
lines = [json.loads(text) for text in open(path)]
keys = [key for line in lines for key in line["keys"]]
wanted = [digest for line in lines for digest in line["digests"]]
reader = Connection(url)
reader.socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
taken = batches = 0
while taken < len(wanted):
    batch = reader.recv()
    samples = len(batch[-1])
    # Batches of another size: the order of samples is the same.
    there = slice(taken, taken + samples)
    if digests(batch, keys[there]) != wanted[there]:
        sys.exit(f"batch {batches} of {url} is not that of the reference")
    taken, batches = taken + samples, batches + 1
print(f"{batches} batches, {taken} samples of {url}: equal to the last byte")
