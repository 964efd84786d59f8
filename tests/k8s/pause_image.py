#!/usr/bin/env python3
"""Packs the program that holds a pod's namespaces: pause_image.py PROGRAM OUT."""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path


def tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


layer = tar({"pause": Path(sys.argv[1]).read_bytes()})
config = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Entrypoint": ["/pause"], "User": "65532:65532"},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}
manifest = [{"Config": "config.json", "RepoTags": ["localhost/pause:1"], "Layers": ["layer.tar"]}]
files = {
    "config.json": json.dumps(config).encode(),
    "layer.tar": layer,
    "manifest.json": json.dumps(manifest).encode(),
}
Path(sys.argv[2]).write_bytes(tar(files))
