#!/usr/bin/env python3
"""Packs a built binary as a container image, without a container engine.

    scripts/image.py TIER --binary target/release/headwater --out headwater-TIER.tar [--notices FILE]

TIER is storage, augment or receiver. The image is what the Containerfile of the same tree makes: the
program, the shared libraries it needs, and nothing to run beside it; it runs as an ordinary user. The
archive is an OCI layout and a docker archive in one: `ctr images import`, `docker load`, `podman load`
and `skopeo copy oci-archive:..` take it. The same inputs make the same bytes.
FILE is what scripts/notices.py writes, the licences of what is linked: give it for an image that others get.
"""

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

USER = 65532
# What a container is asked to do when nothing is said: its tier's verb.
VERBS = {"storage": "storage", "augment": "augment", "receiver": "receive"}
PROGRAM = "usr/bin/headwater"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LICENCE = Path(__file__).resolve().parents[1] / "LICENSE"
PASSWD = f"root:x:0:0:root:/root:/sbin/nologin\nheadwater:x:{USER}:{USER}::/home/headwater:/sbin/nologin\n"
GROUP = f"root:x:0:\nheadwater:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"


def libraries(binary: Path) -> dict[str, Path]:
    """Shared libraries of a binary, by the path they are asked for under."""
    listing = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listing.splitlines():
        if "not found" in line:
            sys.exit(f"{binary} needs a library that is not here: {line.strip()}")
        if match := re.search(r"(?:(\S+) => )?(/\S+) \(0x", line):
            found[match[2].lstrip("/")] = Path(match[2]).resolve()
    return found


class Layer:
    """One layer of an image, in the making."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w")
        self.folders: set[str] = set()

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        above = str(Path(path).parent)
        if above != "." and above not in self.folders:
            self.folder(above)
        if path in self.folders:
            return
        self.folders.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
        self.tar.addfile(entry)

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.folder(str(Path(path).parent))
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(content), mode
        self.tar.addfile(entry, io.BytesIO(content))

    def done(self) -> bytes:
        self.tar.close()
        return self.bytes.getvalue()


def layer(binary: Path, notices: "Path | None") -> bytes:
    made = Layer()
    for path, mode, owner in (("tmp", 0o1777, 0), ("home/headwater", 0o700, USER)):
        made.folder(path, mode, owner)
    for path in ("dev", "proc", "sys", "etc", "data", "run"):
        made.folder(path)
    made.file("etc/passwd", PASSWD.encode())
    made.file("etc/group", GROUP.encode())
    made.file("etc/nsswitch.conf", NSSWITCH.encode())
    if CERTIFICATES.exists():
        made.file(str(CERTIFICATES).lstrip("/"), CERTIFICATES.read_bytes())
    for path, source in sorted(libraries(binary).items()):
        made.file(path, source.read_bytes(), 0o755)
    for text in filter(None, (LICENCE, notices)):
        made.file(f"usr/share/doc/headwater/{text.name}", text.read_bytes())
    made.file(PROGRAM, binary.read_bytes(), 0o755)
    return made.done()


def version(binary: Path) -> str:
    said = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True).stdout
    return said.split()[-1]


def labels(tier: str, version: str) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": f"headwater-{tier}",
        "org.opencontainers.image.description": f"Headwater, {tier} tier",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }


def config(tier: str, version: str, diff_id: str) -> bytes:
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", "HOME=/home/headwater"],
            "Entrypoint": [f"/{PROGRAM}"],
            "Cmd": [VERBS[tier]],
            "WorkingDir": "/",
            "Labels": labels(tier, version),
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": "scripts/image.py"}],
    }
    return json.dumps(image).encode()


def archive(tier: str, name: str, version: str, content: bytes) -> dict[str, bytes]:
    """Files of the archive, by path: blobs by digest, and both kinds of index over them."""
    files = {}

    def blob(media_type: str, data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    kind = "application/vnd.oci.image"
    content_blob = blob(f"{kind}.layer.v1.tar", content)
    config_blob = blob(f"{kind}.config.v1+json", config(tier, version, content_blob["digest"]))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": config_blob,
        "layers": [content_blob],
    }
    entry = blob(manifest["mediaType"], json.dumps(manifest).encode())
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [entry]}
    path = "blobs/sha256/" + config_blob["digest"].removeprefix("sha256:")
    content_path = "blobs/sha256/" + content_blob["digest"].removeprefix("sha256:")
    docker = [{"Config": path, "RepoTags": [name], "Layers": [content_path]}]
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    files["index.json"] = json.dumps(index).encode()
    files["manifest.json"] = json.dumps(docker).encode()
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tier", choices=VERBS)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headwater"))
    parser.add_argument("--notices", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="REPOSITORY:TAG [default: localhost/headwater-TIER:VERSION]")
    flags = parser.parse_args()
    of_binary = version(flags.binary)
    name = flags.name or f"localhost/headwater-{flags.tier}:{of_binary}"
    files = archive(flags.tier, name, of_binary, layer(flags.binary, flags.notices))
    with tarfile.open(flags.out, "w") as out:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    print(f"{flags.out}: {name}")


if __name__ == "__main__":
    main()
