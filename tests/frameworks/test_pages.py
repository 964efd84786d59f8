"""Pages of repositories that are not on PyPI: the lines that they list are those that are applied to a checkout."""

import re

import pytest
from adapters import edits, upstreams

from table import PAGE

FOLDER = PAGE.parent / "integrations"
LINES_MAX = 5
#: Of packages on PyPI whose lines stand in a user's own script.
OF_SCRIPTS = ("lightly_train", "torchtitan", "lightning", "transformers")


def listed(name):
    """The numbered lines of a page, without their numbers."""
    block = re.search(r"```\w+\n(.*?)```", (FOLDER / f"{name}.md").read_text(), re.DOTALL)[1]
    lines = block.splitlines()
    found = []
    for at, line in enumerate(lines):
        if number := re.search(r"# (\d)", line):
            assert int(number[1]) == len(found) + 1, line
            # A comment of its own stands before the line.
            found.append(lines[at + 1] if line.lstrip().startswith("#") else line[: number.start()])
    return [line.strip() for line in found]


@pytest.mark.parametrize("name", edits.EDITS)
def test_a_page_lists_the_lines_that_are_applied(name):
    assert sorted(listed(name)) == sorted(edit.new.strip() for edit in edits.EDITS[name])
    assert len(edits.EDITS[name]) <= LINES_MAX


@pytest.mark.parametrize("name", [*edits.EDITS, *OF_SCRIPTS])
def test_the_table_has_their_number(name):
    row = next(line for line in (FOLDER / "README.md").read_text().splitlines() if f"({name}.md)" in line)
    assert int(re.match(r"\d+", row.split("|")[2].strip())[0]) == len(listed(name)) <= LINES_MAX


@pytest.mark.parametrize("name", edits.EDITS)
def test_they_fit_the_checkout(name):
    if upstreams.folder(name) is None:
        pytest.skip(f"${upstreams.VARIABLE} has no checkout of {name}")
    for file in {edit.file for edit in edits.EDITS[name]}:
        edits.applied(name, file)
