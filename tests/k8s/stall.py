#!/usr/bin/env python3
"""The cluster's external metric in tests: `stall.py ADDRESS PORT CERTIFICATE KEY KUBECONFIG`.

Serves `external.metrics.k8s.io/v1beta1` as prometheus-adapter does by the rule of docs/kubernetes.md: one metric,
the mean share of their time for which ranks waited. This system has no package of Prometheus' adapter.
"""

import http.client
import json
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GROUP = "external.metrics.k8s.io/v1beta1"
METRIC = "headwater_receiver_stall_share"
SERIES = "headwater_receiver_waited_seconds "
RANKS = "app.kubernetes.io/component=receiver"
LOOK_SECONDS = 2.0


class Stall:
    """What ranks waited between two looks."""

    def __init__(self, kubeconfig: str) -> None:
        self.command = ["kubectl", f"--kubeconfig={kubeconfig}", "get", "pods", "-A", "-l", RANKS, "-o", "json"]
        self.before: dict[str, tuple[float, float]] = {}
        self.share = 0.0

    def follow(self) -> None:
        while True:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        listed = subprocess.run(self.command, capture_output=True, text=True)
        if listed.returncode != 0:
            return
        pods = [item["status"] for item in json.loads(listed.stdout)["items"]]
        now = {pod["podIP"]: waited(pod["podIP"]) for pod in pods if pod["phase"] == "Running" and "podIP" in pod}
        now = {address: seen for address, seen in now.items() if seen}
        rates = [
            (total - self.before[address][1]) / (at - self.before[address][0])
            for address, (at, total) in now.items()
            if address in self.before
        ]
        # Ranks that are not there do not wait.
        self.share = max(0.0, sum(rates) / len(rates)) if rates else 0.0
        self.before = now


def waited(address: str) -> "tuple[float, float] | None":
    """Time of the look and the rank's seconds, or None where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}:9400/metrics", timeout=1) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, http.client.HTTPException):
        return None
    found = re.search(rf"^{SERIES}(\S+)$", "\n".join(lines), re.MULTILINE)
    return (time.monotonic(), float(found[1])) if found else None


def answer(path: str, share: float) -> "dict | None":
    if path == f"/apis/{GROUP}":
        resource = {"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": [resource]}
    if re.fullmatch(rf"/apis/{GROUP}/namespaces/[^/]+/{METRIC}", path):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        value = {"metricName": METRIC, "metricLabels": {}, "timestamp": now, "value": f"{1000 * share:.0f}m"}
        return {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "metadata": {}, "items": [value]}
    return None


def main() -> None:
    address, port, certificate, key, kubeconfig = sys.argv[1:]
    stall = Stall(kubeconfig)
    threading.Thread(target=stall.follow, daemon=True).start()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0], stall.share)
            body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer((address, int(port)), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
