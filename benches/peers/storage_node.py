"""All samples of a dataset out of a storage node of its own: `headwater storage`, asked over gRPC.

Needs grpcio and grpcio-tools, which read the protocol from proto/.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

# The folder of the files themselves: a package `headwater` may be installed.
PROTO = pathlib.Path(__file__).parents[2] / "proto" / "proto" / "headwater" / "v1"
# Samples of one request.
AT_ONCE = 1024
# What it is refused for is logged in words.
LOG = os.environ | {"HEADWATER_LOG": "warn,headwater_storage::service=debug"}
ANSWER_BYTES_MAX = 64 << 20


class Refused(Exception):
    """The node does not start, and says why."""


class Late(Exception):
    """The node starts, and a read fails: a caller tries again."""


class Fatal(Exception):
    """A crash, a panic or a hang."""


def services():
    """The modules of the protocol: messages and stubs."""
    import grpc

    if str(PROTO) not in sys.path:
        sys.path.insert(0, str(PROTO))
    storage = grpc.protos_and_services("storage.proto")
    return storage, grpc.protos_and_services("identity.proto")


class Node:
    """A storage node of one dataset."""

    def __init__(self, program: str, dataset: dict, seconds: float) -> None:
        import json

        self.ends, self.said = time.monotonic() + seconds, []
        self.folder = tempfile.TemporaryDirectory(prefix="headwater-tables-")
        # An inline table of TOML has the strings and lists of JSON.
        table = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in dataset.items())
        command = [
            program,
            "storage",
            "--listen",
            "127.0.0.1:0",
            "--index-dir",
            self.folder.name,
            "--dataset",
            f"{{{table}}}",
        ]
        command += ["--set", f'storage.cache=[{{dir="{self.folder.name}", bytes={4 << 30}}}]']
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, errors="replace", cwd=self.folder.name, env=LOG, **pipes)
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.folder.cleanup()

    def address(self) -> str:
        """Waits until it listens."""
        timer = threading.Timer(max(self.left(), 0), self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        in_time = timer.is_alive()
        timer.cancel()
        if line.startswith("listening on "):
            return line.split()[-1]
        if not in_time:
            raise Fatal("hang at the start")
        status = self.process.wait()
        self.reader.join()
        self.check_alive()
        errors = [line.strip() for line in self.said if line.strip()]
        if status < 0 or status > 100:
            raise Fatal(f"crash at the start: status {status}: {errors[-1:]}")
        raise Refused(re.sub(r"\x1b\[[0-9;]*m", "", " ".join(errors)))

    def left(self) -> float:
        return self.ends - time.monotonic()

    def check_alive(self) -> None:
        panics = [line.strip() for line in self.said if "panicked at" in line]
        if panics:
            raise Fatal(panics[0])
        status = self.process.poll()
        if status is not None and status < 0:
            raise Fatal(f"crash: signal {-status}")

    def samples(self, most: int) -> "tuple[int, list[dict[str, bytes] | str]]":
        """How many samples there are, and the first of them: their fields, or why they are bad."""
        import grpc

        address = self.address()
        options = [("grpc.max_receive_message_length", ANSWER_BYTES_MAX)]
        with grpc.insecure_channel(address, options) as channel:
            try:
                return self.read(channel, most)
            except grpc.RpcError as error:
                time.sleep(0.1)
                self.check_alive()
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise Fatal("hang at a read") from error
                refused = [line.partition(" error=")[2].strip() for line in self.said if "request is refused" in line]
                raise Late(refused[-1] if refused else f"{error.code().name}: {error.details()}") from error

    def read(self, channel, most: int):
        (messages, stubs), (who, identity) = services()
        version = identity.IdentityStub(channel).Who(who.WhoRequest(), timeout=self.left()).wire_version
        storage = stubs.StorageStub(channel)
        dataset = storage.Hello(messages.StorageHello(wire_version=version), timeout=self.left()).datasets[0]
        pieces = storage.GetManifest(messages.ManifestRequest(dataset=dataset.name), timeout=self.left())
        shards = [shard for piece in pieces for shard in piece.shards]
        found = []
        for number, shard in enumerate(shards):
            wanted = list(range(min(shard.samples, most - len(found))))
            for start in range(0, len(wanted), AT_ONCE):
                request = {"dataset": dataset.name, "manifest_digest": dataset.manifest_digest, "shard": number}
                request = messages.ReadRequest(**request, indices=wanted[start : start + AT_ONCE])
                found += joined(storage.ReadSamples(request, timeout=max(self.left(), 0)))
        self.check_alive()
        return dataset.samples, found


def joined(blocks) -> "list[dict[str, bytes] | str]":
    """Samples out of the blocks of an answer: a long field comes in several."""
    found, last, more = [], None, 0
    for block in blocks:
        for sample in block.samples:
            if more:
                (field,) = sample.fields
                last[field.name] += field.data
                more = field.more
                continue
            last = sample.bad or {field.name: field.data for field in sample.fields}
            found.append(last)
            more = sample.fields[-1].more if sample.fields else 0
    return found
