"""Adapters of other repositories beside their own loaders: the figures of docs/integrations/README.md.

    python benches/integrations.py --upstreams FOLDER [--print]
    python benches/integrations.py --only timm
    python benches/integrations.py --rows lightly_train torchtitan
    python benches/integrations.py --timm-seeds 160
    python benches/integrations.py --only lightning --seeds 40

Runs in the environment of `make test-frameworks`. For each adapter: the loss of 100 steps with three seeds, and the samples
of a training that is killed at a random step and resumed. Writes them into the page, or prints them. FOLDER has checkouts of
the repositories that are not on PyPI, each in a folder with its name; without it, there are only the others, printed. With --rows
the named rows take the place of those on the page, and all others stay. Beside the versions it says on what was measured: the
processor, the commit, and the load of the machine before and after.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "integrations" / "README.md"
FIGURES = re.compile(r"(?<=<!-- figures: made by benches/integrations.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
SEED = 7
ON_PYPI = ("timm", "open_clip", "lightly_train", "torchtitan", "lightning", "transformers")
CHECKOUTS = ("dinov2", "dinov3", "mae", "ijepa")
PACKAGES = ("timm", "open_clip_torch", "torch", "torchvision", "pillow", "webdataset")
#: Of rows that are measured by themselves: their packages in place of timm's and open_clip's.
OF_ROWS = {
    "lightly_train": ("lightly-train", "lightly", "albumentations"),
    "torchtitan": ("torchtitan", "datasets", "transformers"),
    "lightning": ("lightning",),
    "transformers": ("transformers", "accelerate"),
}
HEAD = """| repository | loader | loss, three seeds | mean | spread | apart | killed after, saved | repeated | lost |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

sys.path.insert(0, str(ROOT / "tests" / "frameworks"))


def data(name, runs, scratch):
    """What a loss is measured with, and what samples are counted of."""
    from adapters import photos

    if name == "open_clip":
        trained = counted = photos.write_captioned(scratch / "captioned", lambda number, label: f"a photo of class {label}, number {number}")
    elif name == "torchtitan":
        photos.write_captioned(scratch / "captioned", runs.described)
        trained = counted = str(scratch / "captioned")
    else:
        # MAE and I-JEPA read a folder `train` of what they get.
        inner = "train" if name in ("mae", "ijepa") else "."
        trained, counted = scratch / "classes", scratch / "photographs"
        photos.write_folder(trained / inner, one_class_each=False)
        photos.write_folder(counted / inner, one_class_each=True)
    return trained, counted


def rows(name, scratch):
    from adapters import figures, photos

    runs = importlib.import_module(f"adapters.{name}_runs")
    trained, counted = data(name, runs, scratch)
    losses = figures.losses(runs.losses, trained)
    for kind in figures.KINDS:
        found = figures.resumed(f"{name}_runs", kind, str(counted), scratch / kind, photos.SAMPLES, SEED)
        of_seeds = getattr(losses, kind)
        cells = [name, {"upstream": "its own", "headwater": "Headwater"}[kind], ", ".join(f"{one:.3f}" for one in of_seeds)]
        cells += [f"{statistics.mean(of_seeds):.3f}"]
        cells += [f"{losses.spread:.3f}", ""] if kind == "upstream" else ["", f"{losses.apart:.3f}"]
        cells += [f"{found.killed_after}, {found.saved}", str(found.repeated), str(found.lost)]
        yield "| " + " | ".join(cells) + " |\n"


def measured(packages, load_before):
    """When, on what and with which versions; begins in the middle of a word."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in dict.fromkeys(packages))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    on = f"easured on {today} on {machine()}, with Python {sys.version.split()[0]},"
    state = f"at commit {commit()}, with a load of {load_before:.1f} before and {load():.1f} after:"
    return f"{on}\n{state}\n{textwrap.fill(versions, 150)}.\n"


def packages_of(names):
    """What the rows of these names are measured with."""
    return [*(package for name in names for package in OF_ROWS.get(name, PACKAGES)), "torch", "torchvision", "pillow"]


def with_rows(page, names, made, of_them):
    """The page, with rows of these names in place of what it has of them, and what `measured` says of them."""
    table, _, notes = FIGURES.search(page)[0].partition("\n\n")
    kept = [row for row in table.splitlines() if row.split("|")[1].strip() not in names]
    begins = f"The rows of {' and '.join(names)}: m"
    notes = "\n\n".join(one for one in notes.strip("\n").split("\n\n") if not one.startswith(begins))
    figures = "\n".join(kept) + "\n" + made + "\n" + notes + "\n\n" + begins + of_them
    return FIGURES.sub(lambda _: figures, page)


def of_seeds(name, seeds, scratch):
    """The loss of either loader over many seeds: means and standard errors."""
    from adapters import figures

    runs = importlib.import_module(f"adapters.{name}_runs")
    losses = figures.losses(runs.losses, data(name, runs, scratch)[0], range(seeds))
    for kind in figures.KINDS:
        yield said_of(kind, getattr(losses, kind))


def said_of(kind, losses):
    mean, deviation, seeds = statistics.mean(losses), statistics.stdev(losses), len(losses)
    return f"{kind}: {mean:.4f}, standard error {deviation / seeds**0.5:.4f}, of {seeds} seeds with deviation {deviation:.4f}"


def of_timm(seeds, scratch):
    """timm's loss over many seeds, where it erases after it mixes and before, beside Headwater's: means and standard errors."""
    from adapters import figures, photos, timm_runs

    folder = photos.write_folder(scratch / "classes", one_class_each=False)
    for kind in ("upstream", timm_runs.ERASING_FIRST, "headwater"):
        found = [statistics.mean(timm_runs.losses(kind, folder, seed, figures.STEPS)[-figures.LAST :]) for seed in range(seeds)]
        yield said_of(kind, found)


def machine():
    """The cores of this process. Processors of one name differ: their family and model say which one it is."""
    pairs = (line.partition(":") for line in reversed(Path("/proc/cpuinfo").read_text().splitlines()))
    found = {name.strip(): value.strip() for name, _, value in pairs}
    name = found.get("model name", "unnamed processor")
    family = f" (family {found['cpu family']}, model {found['model']})" if "cpu family" in found else ""
    return f"{len(os.sched_getaffinity(0))} cores of an {name}{family}"


def commit():
    """What is checked out here, with `-dirty` where files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "unknown"


def load():
    """Processes that ran or waited to, the mean of a minute."""
    return os.getloadavg()[0]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--print", action="store_true", help="print the table, and leave the page as it is")
    arguments.add_argument("--only", choices=ON_PYPI + CHECKOUTS, help="one adapter, printed")
    arguments.add_argument("--rows", nargs="+", choices=ON_PYPI + CHECKOUTS, help="these adapters, in place of their rows on the page")
    arguments.add_argument("--upstreams", metavar="FOLDER", help="checkouts of dinov2, dinov3, mae and ijepa")
    arguments.add_argument("--timm-seeds", type=int, metavar="SEEDS", help="timm's loss over as many seeds, also where it erases first, printed")
    arguments.add_argument("--seeds", type=int, help="the loss of --only over as many seeds, printed")
    given = arguments.parse_args()
    if given.seeds and not given.only:
        arguments.error("--seeds goes with --only, which names the adapter")
    if given.upstreams:
        os.environ["HEADWATER_UPSTREAMS"] = given.upstreams
    warnings.filterwarnings("ignore", module="timm|open_clip|dinov2|dinov3|lightly|torch|datasets")
    if given.timm_seeds or given.seeds:
        with tempfile.TemporaryDirectory() as scratch:
            made = of_timm(given.timm_seeds, Path(scratch)) if given.timm_seeds else of_seeds(given.only, given.seeds, Path(scratch))
            for line in made:
                print(line, flush=True)
        return
    table, load_before = "" if given.rows else HEAD, load()
    for name in given.rows or ([given.only] if given.only else ON_PYPI + (CHECKOUTS if given.upstreams else ())):
        with tempfile.TemporaryDirectory() as scratch:
            for row in rows(name, Path(scratch)):
                print(row, end="", flush=True)
                table += row
    if given.rows:
        of_them = measured(packages_of(given.rows), load_before)
        print(f"\nM{of_them}")
        if not given.print:
            PAGE.write_text(with_rows(PAGE.read_text(), given.rows, table, of_them))
        return
    table += "\nM" + measured(packages_of([given.only] if given.only else ["timm", *OF_ROWS]), load_before)
    print("\n" + table.rpartition("\n\n")[2])
    if given.upstreams and not given.print and not given.only:
        PAGE.write_text(FIGURES.sub(lambda _: table, PAGE.read_text()))


if __name__ == "__main__":
    main()
