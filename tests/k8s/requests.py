#!/usr/bin/env python3
"""Looks in the API server's audit log how pods followed endpoint slices: requests.py AUDIT.log.

A pod that follows a Service lists its slices and then watches them; every further list is the beginning of another
watch. Exit status 1 where a pod lists without watching, or nobody asked.
"""

import json
import sys
from collections import defaultdict
from urllib.parse import parse_qs, urlsplit

asked = defaultdict(lambda: defaultdict(set))
for text in open(sys.argv[1]):
    event = json.loads(text)
    if event["responseStatus"]["code"] != 200:
        # Older clusters do not know the newer API, which is asked for first.
        continue
    (service,) = parse_qs(urlsplit(event["requestURI"]).query)["labelSelector"]
    asked[event["sourceIPs"][0], service][event["verb"]].add(event["auditID"])
if not asked:
    sys.exit("nobody asked for endpoint slices")
for (address, service), verbs in sorted(asked.items()):
    lists, watches = len(verbs["list"]), len(verbs["watch"])
    print(f"{address} {service}: {lists} lists, {watches} watches")
    # The last list may have been the end of its pod.
    if not watches or lists > watches + 1:
        sys.exit(f"{address} lists {service} {lists} times and watches {watches} times")
