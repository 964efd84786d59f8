"""Adapters of other repositories beside their own loaders: the figures of docs/integrations/README.md.

    python benches/integrations.py [--print]

Runs in the environment of `make test-frameworks`. For each adapter: the loss of 100 steps with three seeds, and the samples
of a training that is killed at a random step and resumed. Writes them into the page, or prints them.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "integrations" / "README.md"
FIGURES = re.compile(r"(?<=<!-- figures: made by benches/integrations.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
SEED = 7
NAMES = ("timm", "open_clip")
PACKAGES = ("timm", "open_clip_torch", "torch", "torchvision", "pillow", "webdataset")
HEAD = """| repository | loader | loss, three seeds | mean | spread | apart | killed after, saved | repeated | lost |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

sys.path.insert(0, str(ROOT / "tests" / "frameworks"))


def rows(name, scratch):
    from adapters import figures, photos

    runs = importlib.import_module(f"adapters.{name}_runs")
    if name == "timm":
        trained = photos.write_folder(scratch / "classes", one_class_each=False)
        counted = photos.write_folder(scratch / "photographs", one_class_each=True)
    else:
        trained = counted = photos.write_captioned(scratch / "captioned", lambda number, label: f"a photo of class {label}, number {number}")
    losses = figures.losses(runs.losses, trained)
    for kind in figures.KINDS:
        found = figures.resumed(f"{name}_runs", kind, str(counted), scratch / kind, photos.SAMPLES, SEED)
        of_seeds = getattr(losses, kind)
        cells = [name, {"upstream": "its own", "headwater": "Headwater"}[kind], ", ".join(f"{one:.3f}" for one in of_seeds)]
        cells += [f"{statistics.mean(of_seeds):.3f}"]
        cells += [f"{losses.spread:.3f}", ""] if kind == "upstream" else ["", f"{losses.apart:.3f}"]
        cells += [f"{found.killed_after}, {found.saved}", str(found.repeated), str(found.lost)]
        yield "| " + " | ".join(cells) + " |\n"


def machine():
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of an {models[0]}" if models else "an unnamed processor"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--print", action="store_true", help="print the table, and leave the page as it is")
    arguments.add_argument("--only", choices=NAMES, help="one adapter, printed")
    given = arguments.parse_args()
    table = HEAD
    for name in [given.only] if given.only else NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            for row in rows(name, Path(scratch)):
                print(row, end="", flush=True)
                table += row
    versions = ", ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in PACKAGES)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    table += f"\nMeasured on {today} on {machine()}, with Python {sys.version.split()[0]}:\n{versions}.\n"
    print(table.rpartition("\n\n")[2])
    if not given.print and not given.only:
        PAGE.write_text(FIGURES.sub(lambda _: table, PAGE.read_text()))


if __name__ == "__main__":
    main()
