#!/usr/bin/env python3
"""Packs a built binary as a container image, without a container engine.

    scripts/image.py IMAGE --binary target/release/headwater --out headwater-IMAGE.tar

IMAGE is storage, augment or receiver. augment-rdma and receiver-rdma also have libibverbs with the drivers of NICs, and
UCX; augment-cuda has these, NVRTC and nvJPEG. An image holds the program, stripped, the shared libraries it needs, and
nothing to run beside it; it runs as an ordinary user and is for the processor of the binary.

The archive is an OCI layout and a docker archive in one: `ctr images import`, `docker load`, `podman load` and
`skopeo copy oci-archive:..` take it. With --tree in place of --out, the files are laid out in a folder: so the Containerfile
of the same tree makes its images. The same inputs make the same bytes.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import debian
import elf

USER = 65532
IMAGES = ("storage", "augment", "augment-rdma", "augment-cuda", "receiver", "receiver-rdma")
# What a container is asked to do when nothing is said: its tier's verb.
VERBS = {"storage": "storage", "augment": "augment", "receiver": "receive"}
ENV = ["PATH=/usr/bin", "HOME=/home/headwater"]
PROGRAM = "usr/bin/headwater"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
TREE = Path(__file__).resolve().parents[1]
LICENCE = TREE / "LICENSE"
NOTICES = "THIRD-PARTY-NOTICES.txt"
PASSWD = f"root:x:0:0:root:/root:/sbin/nologin\nheadwater:x:{USER}:{USER}::/home/headwater:/sbin/nologin\n"
GROUP = f"root:x:0:\nheadwater:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
# Libraries that the program opens while it runs, and the modules that they open themselves.
RDMA = (("libibverbs.so.1", "libibverbs/*.so"), ("libucp.so.0", "ucx/*.so.0"))
CUDA = ("libnvrtc.so.*", "libnvrtc-builtins.so.*", "libnvjpeg.so.*")
# NVIDIA's runtime mounts the driver: CUDA, NVML, and for nvJPEG's engines the one of videos. Some clusters
# mount it in a folder that no loader looks into.
CUDA_ENV = [
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
    "LD_LIBRARY_PATH=/usr/local/nvidia/lib64",
]


def stripped(binary: Path, processor: elf.Processor) -> bytes:
    """The program without symbols and tables for debuggers: a sixth of a release. Panics still name file and line."""
    own = processor.linux == platform.machine()
    tools = ["strip" if own else f"{processor.triple}-strip", "llvm-strip"]
    tool = next(filter(shutil.which, tools), None)
    if tool is None:
        sys.exit(f"{' or '.join(tools)} is missing: install binutils{'' if own else f' for {processor.linux}'} or llvm")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "headwater")
        subprocess.run([tool, "-o", made, binary], check=True)
        return made.read_bytes()


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

    def link(self, path: str, to: str) -> None:
        self.folder(str(Path(path).parent))
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname = tarfile.SYMTYPE, os.path.relpath(to, Path(path).parent)
        self.tar.addfile(entry)

    def done(self) -> bytes:
        self.tar.close()
        return self.bytes.getvalue()


def rdma(sysroot: elf.Sysroot) -> "tuple[dict[str, Path], dict[str, Path]]":
    """Verbs with the drivers of NICs, and UCX with its transports: libraries and other files, by path."""
    libraries = {}
    for name, modules in RDMA:
        place = sysroot.find(name)
        folder = Path(place or "lib").parent
        found = sorted((sysroot.folder / folder).glob(modules))
        if place is None or not found:
            sys.exit(f"{sysroot.folder} lacks {name} or {modules}: install libibverbs1, ibverbs-providers and libucx0 there")
        libraries |= {str(path.relative_to(sysroot.folder)): path for path in (sysroot.folder / place, *found)}
    drivers = sorted((sysroot.folder / "etc/libibverbs.d").glob("*.driver"))
    return libraries, {f"etc/libibverbs.d/{path.name}": path for path in drivers}


def cuda(sysroot: elf.Sysroot, toolkit: Path) -> "tuple[dict[str, Path], dict[str, Path]]":
    """The compiler of kernels and the JPEG decoder, where the loader looks, with their licences: as for `rdma`."""
    folder = Path(sysroot.find("libc.so.6") or "usr/lib/libc.so.6").parent
    libraries = {}
    for pattern in CUDA:
        found = sorted((toolkit / "lib").glob(pattern))
        if len(found) != 1:
            sys.exit(f"{toolkit}/lib has {len(found)} files {pattern}, not one: --cuda names what scripts/install-cuda.sh prints")
        libraries[f"{folder}/{found[0].name}"] = found[0]
    texts = {}
    for package in ("nvidia_cuda_nvrtc", "nvidia_nvjpeg"):
        for path in toolkit.parents[1].glob(f"{package}-*.dist-info/licenses/*"):
            texts[f"usr/share/doc/{package}/{path.name}"] = path
    return libraries, texts


def layer(image: str, binary: Path, sysroot: elf.Sysroot, toolkit: "Path | None", notices: "Path | None") -> bytes:
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
    extras = [rdma(sysroot)] if "-" in image else []
    extras += [cuda(sysroot, toolkit)] if toolkit else []
    opened = {path: source for found, _ in extras for path, source in found.items()}
    texts = {path: source.read_bytes() for _, found in extras for path, source in found.items()}
    libraries = sysroot.complete(binary, opened)
    of_system = [source for source in libraries.values() if not toolkit or toolkit not in source.parents]
    of_packages, unknown = debian.texts(sysroot.folder, of_system)
    if unknown:
        names = ", ".join(path.name for path in unknown)
        print(f"the image has no licences of {names}: no package of {sysroot.folder} has them", file=sys.stderr)
    for path, text in sorted({**texts, **of_packages}.items()):
        made.file(path, text)
    places: dict[Path, str] = {}
    for path, source in sorted(libraries.items()):
        # A driver that stays one file under two names is loaded once; as two files it would not know its own devices.
        first = places.setdefault(source.resolve(), path)
        if first == path:
            made.file(path, source.read_bytes(), 0o755)
        else:
            made.link(path, first)
    for text in filter(None, (LICENCE, notices)):
        made.file(f"usr/share/doc/headwater/{text.name}", text.read_bytes())
    made.file(PROGRAM, stripped(binary, sysroot.processor), 0o755)
    return made.done()


def version() -> str:
    """The version of the tree: a binary for another processor can't say its own."""
    return tomllib.loads((TREE / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def labels(image: str, version: str) -> dict[str, str]:
    tier, _, extra = image.partition("-")
    return {
        "org.opencontainers.image.title": f"headwater-{image}",
        "org.opencontainers.image.description": f"Headwater, {tier} tier" + (f", with {extra.upper()}" if extra else ""),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }


def config(image: str, version: str, architecture: str, diff_id: str) -> bytes:
    content = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ENV + (CUDA_ENV if image.endswith("-cuda") else []),
            "Entrypoint": [f"/{PROGRAM}"],
            "Cmd": [VERBS[image.partition("-")[0]]],
            "WorkingDir": "/",
            "Labels": labels(image, version),
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": "scripts/image.py"}],
    }
    return json.dumps(content).encode()


def archive(image: str, name: str, version: str, architecture: str, content: bytes) -> dict[str, bytes]:
    """Files of the archive, by path: blobs by digest, and both kinds of index over them."""
    files = {}

    def blob(media_type: str, data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    kind = "application/vnd.oci.image"
    content_blob = blob(f"{kind}.layer.v1.tar", content)
    config_blob = blob(f"{kind}.config.v1+json", config(image, version, architecture, content_blob["digest"]))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": config_blob,
        "layers": [content_blob],
    }
    entry = blob(manifest["mediaType"], json.dumps(manifest).encode())
    entry["platform"] = {"architecture": architecture, "os": "linux"}
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
    parser.add_argument("image", choices=IMAGES)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headwater"))
    parser.add_argument("--sysroot", type=Path, help="libraries of the binary's processor, laid out like / [default: / for this "
                        "machine's, else /usr/aarch64-linux-gnu or the like]")
    parser.add_argument("--cuda", type=Path, help="for augment-cuda: the folder that scripts/install-cuda.sh prints")
    parser.add_argument("--notices", type=Path, help="licences of what is linked, for an image that others get; scripts/notices.py "
                        f"writes them [default: {NOTICES} of the tree, if it is there]")
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--out", type=Path, help="the archive")
    made.add_argument("--tree", type=Path, help="a folder for the files")
    parser.add_argument("--name", help="REPOSITORY:TAG [default: localhost/headwater-IMAGE:VERSION]")
    flags = parser.parse_args()
    if not flags.binary.is_file():
        parser.error(f"{flags.binary} is missing: build it, or name another one by --binary")
    if flags.image.endswith("-cuda") != bool(flags.cuda):
        parser.error("--cuda goes with augment-cuda, and only with that")
    notices = flags.notices or TREE / NOTICES
    if not flags.notices and not notices.exists():
        print(f"the image has no licences of others: scripts/notices.py --out {NOTICES}", file=sys.stderr)
        notices = None
    processor = elf.read(flags.binary).processor
    sysroot = elf.Sysroot(processor, flags.sysroot)
    content = layer(flags.image, flags.binary, sysroot, flags.cuda, notices)
    if flags.tree:
        with tarfile.open(fileobj=io.BytesIO(content)) as files:
            # As they are, with owners: they were packed above.
            files.extraction_filter = lambda member, _: member
            files.extractall(flags.tree)
        return
    name = flags.name or f"localhost/headwater-{flags.image}:{version()}"
    files = archive(flags.image, name, version(), processor.image, content)
    with tarfile.open(flags.out, "w") as out:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    print(f"{flags.out}: {name}, {processor.image}, {flags.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
