#!/usr/bin/env python3
"""Draws README's bar chart and badges from the figures that the repository holds.

    scripts/readme_figures.py           writes docs/images/throughput.svg and docs/images/badge-*.svg
    scripts/readme_figures.py --check   only says which of them are out of date; exit status 1 if any is

No figure is written here. The chart comes from docs/benchmarks/recipe.md. Each badge comes from one file or
from a count of the tree. A page that no longer has the figure is an error.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benches" / "peers"))

import drawing  # noqa: E402 - not installed

IMAGES = Path("docs/images")
RECIPE = "docs/benchmarks/recipe.md"
SOAK = "docs/benchmarks/soak.md"
PRESETS = "docs/recipes.md"

# Rows of recipe.md's first table that are ours, in its order: with entry points, and without.
OURS = "headwater"
EPOCHS = ("Headwater, later epochs", "Headwater, first epoch")
# Its rows of other systems, in the order of the chart.
OTHERS = ("albumentations + OpenCV", "DALI, CPU", "torchvision + Pillow")
# The column of the table that the chart shows.
COLUMN = "`dinov2`, images/s"

# The badge gives the number of tests in steps, and may be behind by so many: otherwise each new test would change it.
TESTS_STEP = 100
TESTS_BEHIND_MAX = 500


class Missing(Exception):
    """A page does not have a figure where it is expected."""


@dataclass(frozen=True)
class Bar:
    name: str
    images_per_s: float
    is_ours: bool


def page(name: str, root: Path = ROOT) -> str:
    return (root / name).read_text()


def rows(text: str, column: str) -> "list[dict[str, str]]":
    """Rows of the first table that has a column of this name, by the names of the columns."""
    names = None
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if names is None and column in cells:
            names = cells
        elif names is not None and not cells:
            break
        elif names is not None and not set("".join(cells)) <= set("-: "):
            found.append(dict(zip(names, cells)))
    if not found:
        raise Missing(f"no table with a column {column}")
    return found


def bars(root: Path = ROOT) -> "list[Bar]":
    """The chart's bars: images per second on one core with the recipe `dinov2`."""
    measured = {row["system"]: row[COLUMN] for row in rows(page(RECIPE, root), COLUMN)}
    ours = [cell for system, cell in measured.items() if system.startswith(OURS)]
    if len(ours) != len(EPOCHS):
        raise Missing(f"{RECIPE} has {len(ours)} rows of {OURS}: {len(EPOCHS)} are drawn")
    drawn = [(name, cell, True) for name, cell in zip(EPOCHS, ours)]
    drawn += [(system, measured.get(system, ""), False) for system in OTHERS]
    found = []
    for name, cell, is_ours in drawn:
        number = re.match(r"[\d,]+(?:\.\d+)?", cell)
        if number is None:
            raise Missing(f"{RECIPE} has no row {name}")
        found.append(Bar(name, float(number[0].replace(",", "")), is_ours))
    return found


def measured_on(root: Path = ROOT) -> str:
    """The date of the chart's table."""
    before = page(RECIPE, root).split(COLUMN)[0]
    dates = re.findall(r"\b20\d\d-\d\d-\d\d\b", before)
    if not dates:
        raise Missing(f"{RECIPE} has no date before its first table")
    return dates[-1]


def soak(root: Path = ROOT) -> "tuple[str, str, str]":
    """Faults, batches compared and batches that differ, of the newest run."""
    pattern = r"([\d,]+) faults\b[^*]*\*\*([\d,]+) batches compared, ([\d,]+) differ\*\*"
    found = re.search(pattern, page(SOAK, root))
    if found is None:
        raise Missing(f"{SOAK} does not say how many batches of how many faults were compared")
    return found[1], found[2], found[3]


def certified(root: Path = ROOT) -> int:
    """Presets whose every view is equal to that of the published code."""
    count = 0
    for row in rows(page(PRESETS, root), "views equal"):
        equal = re.fullmatch(r"(\d+) of (\d+)", row["views equal"])
        if equal and equal[1] == equal[2] and row["largest difference"] == "0":
            count += len(re.findall(r"`[^`]+`", row["preset"]))
    if not count:
        raise Missing(f"{PRESETS} has no preset with a certificate")
    return count


def tests(root: Path = ROOT) -> int:
    """Functions in the tree that are tests: Rust's and pytest's."""
    patterns = {"*.rs": r"^\s*#\[(?:tokio::)?test\b", "*.py": r"^\s*(?:async )?def test_"}
    count = 0
    for ending, pattern in patterns.items():
        listed = subprocess.run(["git", "ls-files", ending], cwd=root, check=True, capture_output=True, text=True)
        for name in listed.stdout.splitlines():
            if (root / name).exists():
                count += len(re.findall(pattern, page(name, root), re.MULTILINE))
    return count


def key(name: str, pattern: str, root: Path = ROOT) -> str:
    found = re.search(pattern, page(name, root), re.MULTILINE)
    if found is None:
        raise Missing(f"{name} does not match {pattern}")
    return found[1]


# === The chart ===

SYSTEMS = ("Headwater", "other libraries")


def chart(drawn: "list[Bar]", date: str) -> str:
    said = "; ".join(f"{bar.name}: {bar.images_per_s:,.0f}" for bar in drawn)
    rows = [(bar.name, (bar.images_per_s, None) if bar.is_ours else (None, bar.images_per_s)) for bar in drawn]
    return drawing.bars("DINOv2 augmentation on one core", f"images per second, {date}", rows, SYSTEMS, said)


# === Badges ===

@dataclass(frozen=True)
class Badge:
    name: str
    label: str
    value: str
    colour: str


GOOD, PLAIN = "#1a7f37", "#0969da"
# Widths of a sans-serif font of 11 pixels: narrow, wide, and all others.
NARROW, WIDE = "iljtfr.,:;|!'()[] I1", "mwMW%@"


def badges(root: Path = ROOT) -> "list[Badge]":
    faults, compared, differ = soak(root)
    floor = tests(root) // TESTS_STEP * TESTS_STEP
    return [
        Badge("tests", "test functions", f"{floor:,}+", GOOD),
        Badge("faults", "faults survived", f"{faults}, {differ} of {compared} batches differ", GOOD),
        Badge("presets", "presets certified", f"{certified(root)}, every byte", GOOD),
        Badge("python", "Python", key("gpu-receiver/python/pyproject.toml", r'^requires-python = ">=([\d.]+)"', root) + "+", PLAIN),
        Badge("license", "license", key("Cargo.toml", r'^license = "([^"]+)"', root), PLAIN),
    ]


def wide(text: str) -> int:
    return round(sum(3.6 if char in NARROW else 9.5 if char in WIDE else 6.6 for char in text))


def draw(badge: Badge) -> str:
    """A badge as SVG, with a ground of its own: it looks the same on light and dark pages."""
    left, right = wide(badge.label) + 14, wide(badge.value) + 14
    said = escape(f"{badge.label}: {badge.value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{said}">\n'
        f"<title>{said}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#484f58"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{badge.colour}"/></g>\n'
        f'<g fill="#ffffff" text-anchor="middle" font-family="Verdana,\'DejaVu Sans\',sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14" textLength="{left - 12}">{escape(badge.label)}</text>'
        f'<text class="value" x="{left + right / 2}" y="14" textLength="{right - 12}">{escape(badge.value)}</text></g>\n'
        "</svg>\n"
    )


def pictures(root: Path = ROOT) -> "dict[Path, str]":
    """All that is drawn, by the path within the tree."""
    drawn, date = bars(root), measured_on(root)
    made = {IMAGES / "throughput.svg": chart(drawn, date)}
    made.update({IMAGES / f"badge-{badge.name}.svg": draw(badge) for badge in badges(root)})
    return made


def is_true(path: Path, there: str, now: str, root: Path) -> bool:
    """Whether a picture says what the tree holds."""
    stated = re.search(r"<title>test functions: ([\d,]+)\+</title>", there)
    if path.name != "badge-tests.svg" or stated is None:
        return there == now
    count = int(stated[1].replace(",", ""))
    return count <= tests(root) <= count + TESTS_BEHIND_MAX


def stale(root: Path = ROOT) -> "dict[Path, str]":
    """Pictures that are missing or say something else than the tree, and what they should be."""
    found = {}
    for path, text in pictures(root).items():
        file = root / path
        if not file.exists() or not is_true(path, file.read_text(), text, root):
            found[path] = text
    return found


def main() -> int:
    is_check = sys.argv[1:] == ["--check"]
    found = stale()
    for path, text in found.items():
        if is_check:
            print(f"{path} does not have the figures of the pages: run scripts/readme_figures.py")
        else:
            (ROOT / path).write_text(text)
            print(f"{path} written")
    return 1 if is_check and found else 0


if __name__ == "__main__":
    sys.exit(main())
