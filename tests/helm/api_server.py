"""As much of an API server as helm's `lookup` asks for: lists of some objects that are in a cluster already."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

# What the chart looks up, by group and version: the kind of each collection.
KINDS = {"v1": {"secrets": "Secret"}, "batch/v1": {"jobs": "Job"}}


class ApiServer:
    """Serves objects at `address` while it is entered."""

    def __init__(self, *objects: dict) -> None:
        self.objects = objects
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"cluster": self}))
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "ApiServer":
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str) -> dict | None:
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["version"]:
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            versions = [{"groupVersion": "batch/v1", "version": "v1"}]
            group = {"name": "batch", "versions": versions, "preferredVersion": versions[0]}
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
        group, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
        kinds = KINDS.get(group)
        if kinds is None:
            return None
        if not rest:
            resources = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["get", "list"]} for name, kind in kinds.items()]
            return {"kind": "APIResourceList", "groupVersion": group, "resources": resources}
        kind = kinds.get(rest[2])
        found = [entry for entry in self.objects if entry["kind"] == kind]
        if len(rest) == 3:
            return {"kind": f"{kind}List", "apiVersion": group, "metadata": {}, "items": found}
        return next((entry for entry in found if entry["metadata"]["name"] == rest[3]), None)


class Handler(BaseHTTPRequestHandler):
    cluster: ApiServer

    def do_GET(self) -> None:
        found = self.cluster.answer(self.path)
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(missing if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
