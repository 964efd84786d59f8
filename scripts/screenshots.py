#!/usr/bin/env python3
"""Makes docs/images: the monitor's page in light and dark, a batch on it, and the monitor in a terminal.

usage: scripts/screenshots.py [FOLDER]

Runs a small service on this machine over the photographs of tests/data. Needs the program (`make build`, or
$HEADWATER_BIN), Chromium and tmux: `scripts/install-system.sh page`.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests" / "page"))

import browser  # noqa: E402
from browser import Browser  # noqa: E402
from service import Service, program  # noqa: E402

# Time in which the plots fill.
FILL_S = float(os.environ.get("HEADWATER_SCREENSHOT_SECONDS", 75))
BYTES_MAX = 200_000
COLUMNS, ROWS = 120, 26

# Eighths of a cell, from the bottom and from the left.
BLOCKS = "▁▂▃▄▅▆▇█"
LEFT_BLOCKS = "▏▎▍▌▋▊▉"

# A terminal's sixteen colours on a dark ground.
PAPER, INK = "#11161c", "#d9dfe5"
COLOURS = [
    "#1b232c", "#e5636a", "#5cc08b", "#e0b354", "#5b9ee8", "#b48ce0", "#4fc1c4", "#cdd4db",
    "#6a7683", "#ff8a8f", "#7fe0ac", "#ffd37a", "#85bdff", "#d0b0f5", "#78e3e6", "#ffffff",
]


def colour(codes):
    """The colour that `38` or `48` in a list of codes goes on with; takes it from the list."""
    kind = codes.pop(0)
    if kind == 2:
        return "#%02x%02x%02x" % tuple(codes.pop(0) for _ in range(3))
    number = codes.pop(0)
    if number < 16:
        return COLOURS[number]
    if number >= 232:
        return "#" + "%02x" % (8 + 10 * (number - 232)) * 3
    levels = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#%02x%02x%02x" % (levels[number // 36], levels[number // 6 % 6], levels[number % 6])


def styled(line):
    """Runs of a line of `tmux capture-pane -e`: [text, ink, paper, bold]."""
    ink = paper = None
    bold = dim = reverse = False
    runs = []
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if not part.startswith("\x1b["):
            if part:
                front, back = (paper or PAPER, ink or INK) if reverse else (ink, paper)
                runs.append([part, "#77838f" if dim and not front else front, back, bold])
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                ink = paper = None
                bold = dim = reverse = False
            elif code in (1, 2, 7, 22, 27):
                bold, dim = (code == 1 or bold) and code != 22, (code == 2 or dim) and code != 22
                reverse = (code == 7 or reverse) and code != 27
            elif code in (38, 48):
                found = colour(codes)
                ink, paper = (found, paper) if code == 38 else (ink, found)
            elif code == 39:
                ink = None
            elif code == 49:
                paper = None
            elif 30 <= code <= 37 or 90 <= code <= 97:
                ink = COLOURS[code % 10 + (8 if code >= 90 else 0)]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                paper = COLOURS[code % 10 + (8 if code >= 100 else 0)]
    return runs


def svg(lines):
    """A terminal's lines as a picture."""
    width, height, edge = 8.4, 17, 14
    full = (COLUMNS * width + 2 * edge, len(lines) * height + 2 * edge)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full[0]:.0f} {full[1]:.0f}" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,Liberation Mono,monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
    ]
    for row, line in enumerate(lines):
        column, top = 0, edge + row * height
        for text, ink, paper, bold in styled(line):
            x, length = edge + column * width, len(text) * width
            if paper:
                drawn.append(f'<rect x="{x:.1f}" y="{top}" width="{length:.1f}" height="{height}" fill="{paper}"/>')
            if text.strip(BLOCKS + LEFT_BLOCKS + " ") == "":
                # Fonts leave seams between them.
                for found in re.finditer(f"([{BLOCKS}])\\1*|[{LEFT_BLOCKS}]", text):
                    wide, high = len(found[0]) * width, height
                    if found[1]:
                        high *= (BLOCKS.index(found[1]) + 1) / 8
                    else:
                        wide *= (LEFT_BLOCKS.index(found[0]) + 1) / 8
                    drawn.append(
                        f'<rect x="{x + found.start() * width:.1f}" y="{top + height - high:.1f}" width="{wide:.1f}" '
                        f'height="{high:.1f}" fill="{ink or INK}" shape-rendering="crispEdges"/>')
            else:
                # Each run has its length, so that columns stay in line whatever the font is.
                weight = ' font-weight="600"' if bold else ""
                drawn.append(
                    f'<text x="{x:.1f}" y="{top + 13}" textLength="{length:.1f}" xml:space="preserve" '
                    f'fill="{ink or INK}"{weight}>{html.escape(text)}</text>'
                )
            column += len(text)
    return "\n".join([*drawn, "</svg>", ""])


def terminal(service, path):
    """The monitor in a terminal, as SVG."""
    name = f"headwater-{os.getpid()}"
    tmux = ["tmux", "-L", name]
    command = [program(), "monitor", *service.metrics]
    subprocess.run([*tmux, "-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), *command], check=True)
    try:
        time.sleep(FILL_S)
        shown = subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    lines = shown.rstrip("\n").split("\n")
    path.write_text(svg(lines))


def page(service, folder):
    with Browser(1280, 900) as shown:
        shown.open(service.url)
        time.sleep(FILL_S)
        shown.wait("state.report && state.report.summary.samples_per_s > 0")
        # Up to the batch, which has a picture of its own.
        shown.run("document.querySelector('#h-batch').parentElement.hidden = true")
        shown.picture(folder / "page.png")
        shown.look(1280, 900, dark=True)
        shown.wait("document.documentElement.dataset.theme === 'dark'")
        shown.picture(folder / "page-dark.png")
        shown.look(1000, 460)
        shown.run("document.querySelector('#h-batch').parentElement.hidden = false")
        shown.run("document.querySelector('#batch-show').click()")
        shown.wait("document.querySelectorAll('.sample').length === 16")
        shown.run("document.querySelector('.sample details').open = true")
        shown.run("document.body.replaceChildren(document.querySelector('#h-batch').parentElement)")
        shown.run("[...document.querySelectorAll('.sample')].slice(3).forEach((sample) => sample.remove())")
        # Down to the end of a draw: all draws would be a picture of text.
        shown.look(1000, shown.run("Math.ceil(document.querySelectorAll('.sample li')[3].getBoundingClientRect().bottom)"))
        shown.picture(folder / "batch.png", whole=False)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "docs" / "images"
    missing = [name for name in ("tmux",) if shutil.which(name) is None]
    if browser.program() is None:
        missing.append("chromium")
    if missing:
        sys.exit(f"{', '.join(missing)} is missing: run scripts/install-system.sh page")
    folder.mkdir(parents=True, exist_ok=True)
    with Service(workers=2, step_ms=5) as service:
        page(service, folder)
        terminal(service, folder / "terminal.svg")
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        print(f"{path}: {size} bytes")
        if size > BYTES_MAX:
            sys.exit(f"{path} has {size} bytes: {BYTES_MAX} are enough")


if __name__ == "__main__":
    main()
