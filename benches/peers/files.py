#!/usr/bin/env python3
"""Every image below folders, by `headwater.decode` and by Pillow: equal, different, or refused by whom.

    benches/peers/files.py FOLDER.. [--list 40] [--seconds 30]

Each side decodes in a process of its own, so that a crash or an endless loop is one file's and is counted. Pillow has its
default settings. A file counts if its ending or its first bytes are those of JPEG, PNG, WebP, GIF, BMP, TIFF or PNM. Needs the package
`headwater`, Pillow and NumPy. Ends with status 1 if any image differs, crashes or hangs.
"""

import argparse
import collections
import hashlib
import json
import select
import subprocess
import sys
import tempfile
from pathlib import Path

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
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


class Side:
    """A process that decodes, started again after each end."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds, self.process = name, seconds, None

    def ask(self, path: Path, to: "Path | None" = None) -> dict:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, __file__, "--child", self.name]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        self.process.stdin.write(json.dumps({"path": str(path), "to": to and str(to)}) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        how = "crash" if ready else "hang"
        self.process.kill()
        self.process.wait()
        return {"error": how, "fatal": how}


def difference(sides: "list[Side]", path: Path) -> str:
    """By how much the pixels of two sides differ."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        held = []
        for side in sides:
            to = Path(folder) / side.name
            side.ask(path, to)
            held.append(numpy.frombuffer(to.read_bytes(), numpy.uint8).astype(int))
        if len(held[0]) != len(held[1]):
            return "other sizes"
        apart = abs(held[0] - held[1])
        return f"{numpy.count_nonzero(apart)} of {len(apart)} values, by {apart.max()} at most"


def judged(ours: dict, theirs: dict) -> str:
    if ours.get("fatal") or theirs.get("fatal"):
        return f"{ours.get('fatal') or theirs['fatal']} of {'headwater' if ours.get('fatal') else 'Pillow'}"
    if "error" in ours:
        return "refused by both" if "error" in theirs else "refused by headwater only"
    if "error" in theirs:
        return "refused by Pillow only"
    return "equal" if ours == theirs else "different"


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
    sides = [Side(name, given.seconds) for name in SIDES]
    counts, listed = collections.Counter(), collections.defaultdict(list)
    for path in files:
        form = form_of(path)
        if form is None:
            continue
        ours, theirs = (side.ask(path) for side in sides)
        verdict = judged(ours, theirs)
        counts[form, verdict] += 1
        if verdict == "different":
            listed[verdict].append(f"{path}: {difference(sides, path)}")
        elif verdict not in ("equal", "refused by both"):
            listed[verdict].append(f"{path}: {ours.get('error') or theirs.get('error')}")
    verdicts = sorted({verdict for _, verdict in counts}, key=lambda verdict: (verdict != "equal", verdict))
    print("| format | images | " + " | ".join(verdicts) + " |")
    print("| --- " * (len(verdicts) + 2) + "|")
    for form in sorted({form for form, _ in counts}):
        row = [counts[form, verdict] for verdict in verdicts]
        print(f"| {form} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    for verdict, lines in listed.items():
        print(f"\n{verdict}:")
        print("\n".join(lines[: given.list]))
        if len(lines) > given.list:
            print(f"and {len(lines) - given.list} more")
    bad = [verdict for verdict in verdicts if verdict == "different" or "of headwater" in verdict]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
