#!/usr/bin/env python3
"""The cluster's name service in tests: `names.py ADDRESS KUBECONFIG`.

Answers A queries for NAME.NAMESPACE.svc.cluster.local with the addresses of the Service's ready pods, and for
HOST.NAME.NAMESPACE.svc.cluster.local with one pod's, as the API server knows them. Kubernetes itself
brings no name service, and this system has no package of CoreDNS.
"""

import json
import socket
import struct
import subprocess
import sys
import threading
import time

DOMAIN = ".svc.cluster.local"
LOOK_SECONDS = 0.5
NXDOMAIN, A, ANY_CLASS = 3, 1, 1


class Names:
    def __init__(self, kubeconfig: str) -> None:
        self.command = [
            "kubectl",
            f"--kubeconfig={kubeconfig}",
            "get",
            "endpoints",
            "-A",
            "-o",
            "json",
        ]
        self.addresses: dict[str, list[str]] = {}

    def follow(self) -> None:
        while True:
            listed = subprocess.run(self.command, capture_output=True, text=True)
            if listed.returncode == 0:
                self.addresses = self.read(json.loads(listed.stdout)["items"])
            time.sleep(LOOK_SECONDS)

    @staticmethod
    def read(items: list[dict]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for item in items:
            name = f"{item['metadata']['name']}.{item['metadata']['namespace']}{DOMAIN}"
            found[name] = []
            for subset in item.get("subsets", []):
                for address in subset.get("addresses", []):
                    found[name].append(address["ip"])
                    if host := address.get("hostname"):
                        found[f"{host}.{name}"] = [address["ip"]]
        return found


def answer(query: bytes, names: Names) -> bytes:
    """The response to one query of one question."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
    question = query[12 : at + 5]
    known = names.addresses.get(".".join(labels))
    found = known if known and kind == A else []
    flags = 0x8580 | (NXDOMAIN if known is None else 0)
    head = query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
    record = struct.pack(">HHHIH", 0xC00C, A, ANY_CLASS, 1, 4)
    return head + question + b"".join(record + socket.inet_aton(address) for address in found)


def main() -> None:
    names = Names(sys.argv[2])
    threading.Thread(target=names.follow, daemon=True).start()
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((sys.argv[1], 53))
    while True:
        query, caller = server.recvfrom(512)
        try:
            server.sendto(answer(query, names), caller)
        except (IndexError, UnicodeDecodeError, struct.error) as error:
            print(f"not a query from {caller}: {error}", flush=True)


if __name__ == "__main__":
    main()
