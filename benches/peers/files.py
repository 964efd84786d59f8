#!/usr/bin/env python3
"""Every image below folders, by `headwater.decode` and by Pillow: equal, different, or refused by whom.

    benches/peers/files.py FOLDER.. [--list 40] [--seconds 30]

Each side decodes in a process of its own, so that a crash or an endless loop is one file's and is counted. Pillow has its
default settings. A file counts if its ending or its first bytes are those of JPEG, PNG, WebP, GIF, BMP, TIFF or PNM. Needs the package
`headwater`, Pillow and NumPy. Ends with status 1 if any image differs, crashes or hangs.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from sides import Report, Side, judged, reason

ENDINGS = {".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".png": "PNG", ".webp": "WebP"}
ENDINGS |= {".gif": "GIF", ".bmp": "BMP", ".dib": "BMP", ".tif": "TIFF", ".tiff": "TIFF", ".ppm": "PNM", ".pgm": "PNM", ".pbm": "PNM"}
STARTS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF8": "GIF", b"II*\0": "TIFF", b"MM\0*": "TIFF"}


def form_of(path: Path) -> "str | None":
    with path.open("rb") as file:
        head = file.read(12)
    for start, form in STARTS.items():
        if head.startswith(start):
            return form
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return "WebP"
    return ENDINGS.get(path.suffix.lower())


def by_headwater(data: bytes):
    import headwater

    return headwater.decode([data])[0].numpy()


def by_pillow(data: bytes):
    import io

    import numpy
    from PIL import Image

    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


SIDES = {"headwater": by_headwater, "Pillow": by_pillow}


def child(side: str) -> None:
    """Decodes files that are named on standard input, and answers each with a line of JSON."""
    import warnings

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        task = json.loads(line)
        try:
            pixels = SIDES[side](Path(task["path"]).read_bytes())
            answer = {"size": pixels.shape, "sum": hashlib.sha256(pixels.tobytes()).hexdigest()}
            if task.get("to"):
                Path(task["to"]).write_bytes(pixels.tobytes())
        except Exception as error:
            answer = {"error": reason(error)}
        print(json.dumps(answer), flush=True)


def difference(sides: "dict[str, Side]", path: Path) -> str:
    """By how much the pixels of two sides differ."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        held = []
        for name, side in sides.items():
            to = Path(folder) / name
            side.ask(path=str(path), to=str(to))
            held.append(numpy.frombuffer(to.read_bytes(), numpy.uint8).astype(int))
        if len(held[0]) != len(held[1]):
            return "other sizes"
        apart = abs(held[0] - held[1])
        return f"{numpy.count_nonzero(apart)} of {len(apart)} values, by {apart.max()} at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--list", type=int, default=40, help="files that are listed of each kind that is not as it should be")
    parser.add_argument("--seconds", type=float, default=30, help="after which a decoder hangs")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child)
    files = sorted({path for folder in given.folders for path in folder.rglob("*") if path.is_file()})
    sides = {name: Side([sys.executable, __file__, "--child", name], given.seconds) for name in SIDES}
    report = Report()
    for path in files:
        form = form_of(path)
        if form is None:
            continue
        ours, theirs = (side.ask(path=str(path)) for side in sides.values())
        verdict = judged(ours, theirs, "Pillow")
        why = difference(sides, path) if verdict == "different" else ours.get("error") or theirs.get("error")
        report.add(form, verdict, path, why)
    sys.exit(report.print("images", given.list))


if __name__ == "__main__":
    main()
