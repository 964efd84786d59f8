#!/usr/bin/env python3
"""Looks in the API server's audit log how pods followed endpoint slices: requests.py AUDIT.log.

A pod that follows a Service lists its slices and then watches them; every further list is the beginning of another
watch. Exit status 1 where a pod lists without watching, or nobody asked.
"""

import json
import sys
from collections import defaultdict
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

requests = {}
for text in open(sys.argv[1]):
    event = json.loads(text)
    # A watch that goes on has only been received.
    requests.setdefault(event["auditID"], event).update(event)
asked = defaultdict(lambda: defaultdict(list))
for event in requests.values():
    if event.get("responseStatus", {}).get("code", 200) == 404:
        # Older clusters do not know the newer API, which is asked for first.
        continue
    (service,) = parse_qs(urlsplit(event["requestURI"]).query)["labelSelector"]
    time = datetime.fromisoformat(event["requestReceivedTimestamp"].rstrip("Z"))
    asked[event["sourceIPs"][0], service][event["verb"]].append(time)
if not asked:
    sys.exit("nobody asked for endpoint slices")
for (address, service), verbs in sorted(asked.items()):
    lists, watches = len(verbs["list"]), len(verbs["watch"])
    since = (datetime.utcnow() - min(verbs["list"])).total_seconds()
    print(f"{address} {service}: {lists} lists, {watches} watches in {since:.0f} s")
    # The last list may have been the end of its pod.
    if not watches or lists > watches + 1:
        sys.exit(f"{address} lists {service} {lists} times and watches {watches} times")
