"""The documents are in plain English: short table cells, and none of the phrasings that readers have stumbled over."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CELL_MAX = 120
#: Written by the program, from measurements.
GENERATED = ("docs/benchmarks/machine/",)
FOLDERS = ("docs", "slurm", "helm", "gpu-receiver/python", "tests/data")

#: A phrasing, and what to write instead.
BANNED = {
    r"\bThere: ": "a sentence with a verb",
    r"\bof which\b": "a sentence of its own, or `which worker`",
    r"\b(?:has|have|had) not (?:a|an|any|the)\b": "does not have",
    r"\bbeside that\b": "in addition, or next to it",
    r"\bso many\b": "the number, or `as many as`",
    r"\bby turns\b": "in turn, or alternating",
    r"\b(?:is|are|was|were|be) (?:not )?had\b": "is available, or who has it",
    r"\b(?:is|are|was|were|be) told\b": "learns, gets, or is configured",
    r"\bin vain\b": "who gets nothing",
    r"\balone\b": "only",
    r"\bone's own\b": "your own",
    r"\bis to (?:get|be|have|hold)\b": "must",
    r"\bcannot say it is not\b": "cannot tell whether",
    r"\bthere may be where\b": "all that may exist",
    r"\bits copy there begins\b": "is copied there",
    r"\bis around the (?:library|code)\b": "which code",
    r"\bas are wanted\b": "any number",
}


def documents():
    """Paths of the documents that people write, relative to the root."""
    found = [ROOT / name for name in ("ARCHITECTURE.md", "SECURITY.md")]
    found += [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if not name.startswith(GENERATED) and "/." not in name]


def pieces(text):
    """Line number and text of each cell and each paragraph outside code; a cell says so by True."""
    in_code, paragraph, begun = False, [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        line = line.strip()
        is_fence = line.startswith("```")
        if is_fence or in_code or not line or line.startswith(("|", "#", "- ", "* ")) or re.match(r"\d+\. ", line):
            if paragraph:
                yield begun, " ".join(paragraph), False
            paragraph = []
        if is_fence:
            in_code = not in_code
        elif not in_code and line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                yield number, cell.strip(), True
        elif not in_code and line:
            if not paragraph:
                begun = number
            paragraph.append(line.lstrip("#").strip())


def breaches(name, text):
    """What is wrong in a document, one line each."""
    found = []
    for number, piece, is_cell in pieces(text):
        shown = re.sub(r"\]\([^)]*\)", "]", piece)
        if is_cell and len(shown) > CELL_MAX:
            found.append(f"{name}:{number}: a cell of {len(shown)} characters: put details below the table: {shown[:60]}..")
        spoken = re.sub(r"`[^`]*`", "`", shown)
        for phrasing, better in BANNED.items():
            if match := re.search(phrasing, spoken):
                around = spoken[max(0, match.start() - 40) : match.end() + 20]
                found.append(f"{name}:{number}: `{match[0]}`: write {better}: ..{around}..")
    return found


@pytest.mark.parametrize("name", documents())
def test_a_document_is_in_plain_english(name):
    found = breaches(name, (ROOT / name).read_text())
    assert not found, "\n" + "\n".join(found)


def test_there_are_documents():
    assert {"ARCHITECTURE.md", "docs/python.md", "docs/benchmarks/gpu.md", "slurm/README.md"} <= set(documents())


@pytest.mark.parametrize(
    "text",
    [
        "Decoding by nvJPEG, of which only what is around the library has been run",
        "its copy there begins, of what a card has not written there itself",
        "Of what a GPU cannot say it is not free",
        "all there may be where a NIC writes",
        "nobody is to get that who has not chosen it",
        "what it was to say would be waited for in vain",
        "The memory has not a region for it",
        "There: shards on file systems",
        "A stream that\ngoes on by\nturns",
        "- shards, of\n  which two are read",
        "## A list of one's own",
        "| key | meaning |\n| --- | --- |\n| `a` | " + "word " * 30 + "|",
    ],
)
def test_a_breach_is_found(text):
    assert breaches("x.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "nvJPEG decoding is untested; only the code around it has run",
        "the parts that the NIC did not write are copied to the GPU",
        "If the GPU cannot tell whether the slot is free, treat it as busy",
        "it must be opted into",
        "nobody would receive its result",
        "not supported by backend `cpu avx512`",
        "```sh\nprogram --alone\n```",
        "The key `alone` is a name, and [a link](of-which-alone.md) has an address",
        "| key |\n| --- |\n| [" + "word " * 20 + "](" + "x" * 40 + ".md) |",
    ],
)
def test_plain_english_passes(text):
    assert not breaches("x.md", text)
