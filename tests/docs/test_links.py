"""Links of all Markdown files lead to files and headings that are there."""

from pathlib import Path

import pytest
from documents import ROOT, anchors, links, listed

OUTSIDE = ("http://", "https://", "mailto:")


def dead(path: str, text: str) -> list[str]:
    """Links of one file that lead nowhere."""
    found = []
    for line, target in links(text):
        if target.startswith(OUTSIDE):
            continue
        name, _, anchor = target.partition("#")
        to = (ROOT / path).parent / name if name else ROOT / path
        if name and not to.exists():
            found.append(f"{path}:{line}: there is no file {target}")
        elif ROOT not in to.resolve().parents and to.resolve() != ROOT:
            found.append(f"{path}:{line}: {target} is outside of the tree")
        elif anchor and to.suffix == ".md" and anchor not in anchors(text if not name else to.read_text()):
            found.append(f"{path}:{line}: there is no heading {target}")
    return found


@pytest.mark.parametrize("path", listed())
def test_links_lead_somewhere(path):
    assert not dead(path, (ROOT / path).read_text())


def test_dead_links_are_found():
    text = "[a](none.md) `[b](none.md)` [![d](no.png)](cache.md)\n# Here\n[c](#here) [d](#there) [e](python.md#state) [f](python.md#none)\n"
    assert dead("docs/x.md", text) == [
        "docs/x.md:1: there is no file none.md",
        "docs/x.md:1: there is no file no.png",
        "docs/x.md:3: there is no heading #there",
        "docs/x.md:3: there is no heading python.md#none",
    ]


def test_the_table_of_contents_has_every_page():
    summary = {target.partition("#")[0] for _, target in links((ROOT / "docs" / "SUMMARY.md").read_text())}
    # scripts/site.py adds the decisions and what docs link to outside of docs.
    pages = {str(Path(path).relative_to("docs")) for path in listed("docs/*.md") if not path.startswith("docs/adr/")}
    in_docs = {target for target in summary if not target.startswith("../")}
    assert in_docs == pages - {"SUMMARY.md"}, "docs/SUMMARY.md lists each page of docs once"
