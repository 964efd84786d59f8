"""The tables and the plot of resume.py, from its JSON.

usage: resume_tables.py FILE.json [FILE.svg]
"""

import json
import pathlib
import re
import sys

import drawing

SCENARIOS = {
    "again": "run again",
    "once": "resumed",
    "twice": "resumed twice",
    "killed": "kill -9",
    "fewer": "2 to 1 ranks",
    "more": "1 to 2 ranks",
}
# Of a cell that says nothing about its loader.
NOT_KILLED = "not measured: the run ended before it could be killed"
PARTS = {"one": "One dataset, shuffled and augmented", "mix": "Two datasets, mixed 3 to 1, shuffled and augmented"}


def count(cell, what):
    return "yes" if not cell[what] else f"no ({cell[what]} of {cell['of']})"


def text(cell):
    if cell["error"] == NOT_KILLED:
        return "not measured"
    if cell["error"]:
        found = "error"
    elif cell["samples"] == cell["pixels"] == 0:
        found = "yes"
    else:
        found = f"{count(cell, 'samples')}; {count(cell, 'pixels')}"
    return found if cell["offered"] else f"not offered; {found}"


def short(error):
    """The last error of a text that has a whole traceback of another process in it."""
    last = list(re.finditer(r"\b[A-Za-z]+(Error|Exception): ", error))
    return error[last[-1].start() :] if last else error


def markdown(result):
    lines = []
    for part, title in PARTS.items():
        lines += [f"### {title}", "", "| loader | " + " | ".join(SCENARIOS.values()) + " |"]
        lines.append("| --- " * (len(SCENARIOS) + 1) + "|")
        for row in result["loaders"].values():
            cells = [text(row[part][scenario]) for scenario in SCENARIOS]
            lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["### Samples of the epoch, one dataset", "", "| loader | 2 to 1 ranks | 1 to 2 ranks |", "| --- | --- | --- |"]
    for row in result["loaders"].values():
        lines.append(f"| {row['title']} | {epoch(row['one']['fewer'])} | {epoch(row['one']['more'])} |")
    lines += ["", "### Errors", ""]
    for row in result["loaders"].values():
        cells = [cell for part in PARTS for cell in row[part].values()]
        # Each once, in order.
        texts = dict.fromkeys(short(cell[key]) for cell in cells for key in ("refused", "error") if cell[key] not in (None, NOT_KILLED))
        lines += [f"- {row['title']}: `{found}`" for found in texts]
    lines += ["", "### Versions", ""]
    for row in result["loaders"].values():
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        lines.append(f"- {row['title']}: {versions}; {row['docs']}")
    return "\n".join(lines)


def epoch(cell):
    if cell["error"]:
        return "error"
    if not cell["lost"] and not cell["repeated"]:
        return "each once"
    return f"{cell['lost']} lost, {cell['repeated']} repeated"


def plot(result):
    """A field for each scenario: the left half is the samples, the right half the pixels."""
    left, width, height, top = 220, 88, 26, 84
    fields = []
    rows = list(result["loaders"].values())
    for part, (key, title) in enumerate(PARTS.items()):
        y = top + part * (len(rows) * height + 66)
        fields.append(drawing.text(12, y - 38, title))
        for place, name in enumerate(SCENARIOS.values()):
            fields.append(drawing.text(left + (place + 0.5) * width, y - 14, name, "small middle"))
        for line, row in enumerate(rows):
            top_of_row = y + line * height
            fields.append(drawing.text(left - 8, top_of_row + 16, row["title"], "end"))
            for place, scenario in enumerate(SCENARIOS):
                fields += field(left + place * width, top_of_row, width - 6, height - 4, row[key][scenario])
    fields.append(drawing.text(12, 22, "Equal to a run without interruption? Left: samples, right: pixels; numbers: how many differ"))
    total = top + 2 * (len(rows) * height + 66) - 30
    fields.append(drawing.text(12, total - 6, "Grey: the library does not offer it; what came of trying. err: it raised an error.", "small"))
    description = markdown(result).split("### Versions")[0]
    return drawing.document(left + len(SCENARIOS) * width + 12, total + 6, "Resuming beside the peers", description, fields)


def field(x, y, width, height, cell):
    shapes = []
    half = width / 2
    if cell["error"] == NOT_KILLED:
        return [drawing.text(x + half, y + height - 6, "not measured", "small middle")]
    for side, what in enumerate(("samples", "pixels")):
        good = not cell["error"] and not cell[what]
        kind = ("yes" if good else "no") if cell["offered"] else "none"
        words = "err" if cell["error"] else ("yes" if good else cell[what])
        shapes.append(drawing.box(x + side * half, y, half - 1, height, kind))
        shapes.append(drawing.text(x + (side + 0.5) * half, y + height - 6, words, "small middle on"))
    return shapes


if __name__ == "__main__":
    read = json.loads(pathlib.Path(sys.argv[1]).read_text())
    print(markdown(read))
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(plot(read))
