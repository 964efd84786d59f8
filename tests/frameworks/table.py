"""The tables of docs/frameworks.md: what is on the page, and what the tests have measured.

    pytest tests/frameworks --write     # puts what was measured in place of what the page says
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
TABLE = re.compile(r"(?<=<!-- samples: made by tests/frameworks -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
VERSIONS = re.compile(r"(?<=<!-- versions: made by tests/frameworks -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
WIDTH = 140
HEAD = "| framework, launcher | samples | ranks | PyTorch's loader | Headwater |\n| --- | --- | --- | --- | --- |"
ROW = re.compile(r"^\| (?!framework)([^|]+) \| ([^|]+) \| ([\d, ]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A cell of the table, but for the loader."""

    framework: str
    scenario: str
    ranks: int


@dataclass(frozen=True)
class Cells:
    """What an epoch had, with either loader."""

    pytorch: str
    headwater: str


def parsed(page: str) -> dict[Place, Cells]:
    found = {}
    for framework, scenario, ranks, pytorch, headwater in ROW.findall(TABLE.search(page)[0]):
        for rank in ranks.split(", "):
            found[Place(framework, scenario, int(rank))] = Cells(pytorch, headwater)
    return found


def rendered(cells: dict[Place, Cells], scenarios: tuple[str, ...]) -> str:
    """The table: ranks with the same cells share a row."""
    rows: dict[tuple[str, str, Cells], list[int]] = {}
    frameworks = sorted({place.framework for place in cells}, key=str.lower)
    # PyTorch itself comes first, and its launchers after it.
    frameworks.sort(key=lambda name: not name.startswith("PyTorch"))
    order = {name: number for number, name in enumerate(frameworks)}
    for place in sorted(cells, key=lambda one: (order[one.framework], scenarios.index(one.scenario), one.ranks)):
        rows.setdefault((place.framework, place.scenario, cells[place]), []).append(place.ranks)
    lines = [
        f"| {framework} | {scenario} | {', '.join(map(str, ranks))} | {one.pytorch} | {one.headwater} |"
        for (framework, scenario, one), ranks in rows.items()
    ]
    return "\n".join([HEAD, *lines])


class Measured:
    """What this session has measured."""

    def __init__(self):
        self.cells: dict[Place, Cells] = {}
        self.versions: dict[str, str] = {}

    def write(self, scenarios: tuple[str, ...]) -> None:
        page = PAGE.read_text()
        cells = {**parsed(page), **self.cells}
        page = TABLE.sub(lambda _: rendered(cells, scenarios), page)
        known = dict(re.findall(r"([\w.-]+)\s(\d[\w.+]*\w)", VERSIONS.search(page)[0])) | self.versions
        said = ", ".join(f"{name} {known[name]}" for name in sorted(known, key=str.lower))
        PAGE.write_text(VERSIONS.sub(lambda _: textwrap.fill(f"{said}.", WIDTH, break_on_hyphens=False), page))
