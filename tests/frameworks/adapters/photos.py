"""The project's photographs, as upstream's loaders read them: small copies, so that a training takes seconds."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from PIL import Image

SHARDS = Path(__file__).resolve().parents[2] / "data" / "photos"
SAMPLES = 256
SHORTER_SIDE = 96


def photographs():
    """Shard, key, image with its ending, and class of each."""
    for path in sorted(SHARDS.glob("*.tar")):
        with tarfile.open(path) as shard:
            content = {member.name: shard.extractfile(member).read() for member in shard}
        for name in sorted(content):
            key, _, ending = name.rpartition(".")
            if ending in ("jpg", "jpeg"):
                yield path.name, key, small(content[name]), int(content[f"{key}.cls"])


def small(encoded: bytes) -> bytes:
    with Image.open(io.BytesIO(encoded)) as image:
        scale = SHORTER_SIDE / min(image.size)
        copy = image.convert("RGB").resize([round(side * scale) for side in image.size], Image.Resampling.BICUBIC)
    file = io.BytesIO()
    copy.save(file, "JPEG", quality=90)
    return file.getvalue()


def write_folder(folder: Path, one_class_each: bool) -> Path:
    """A folder for each class; with a class for each photograph, a label says which one it is."""
    for number, (_, key, image, label) in enumerate(photographs()):
        of_class = folder / f"class-{number if one_class_each else label:03}"
        of_class.mkdir(parents=True, exist_ok=True)
        (of_class / f"{key}.jpg").write_bytes(image)
    return folder


def write_captioned(folder: Path, caption) -> str:
    """Shards with a text and a list of texts for each photograph, and their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = {}
    for number, (shard, key, image, label) in enumerate(photographs()):
        texts = {"captions": [f"{name} of photograph {number}" for name in ("one", "two", "three")]}
        fields = {"jpg": image, "txt": caption(number, label).encode(), "json": json.dumps(texts).encode()}
        shards.setdefault(shard, []).extend((f"{key}.{ending}", content) for ending, content in fields.items())
    for shard, files in shards.items():
        with tarfile.open(folder / shard, "w") as archive:
            for name, content in files:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return str(folder / f"photos-{{000000..{len(shards) - 1:06}}}.tar")
