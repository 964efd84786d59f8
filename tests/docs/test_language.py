"""Documents, comments and errors are in plain English: short cells, no phrasing that readers have stumbled over."""

import re
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import rust

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
    r"\bare no classes\b": "are not classes",
    r"\bof it decode\b": "decode (in render)",
    r"\bmilliards?\b": "billion",
    r"\bthe seed system\b": "dino_loader",
}
ANY_BANNED = re.compile("|".join(BANNED))


def documents():
    """Paths of the documents that people write, relative to the root."""
    found = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
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
    """What is wrong in a document, or in the comments and error texts of a Rust file, one line each."""
    if not name.endswith(".rs"):
        return spoken_breaches(name, 1, text)
    said = [*rust.comments(text), *rust.error_texts(text)]
    return [line for begun, spoken in said for line in spoken_breaches(name, begun, spoken)]


def spoken_breaches(name, begun, text):
    """What is wrong in a text that begins at this line of a file."""
    found = []
    for number, piece, is_cell in pieces(text):
        place = f"{name}:{number + begun - 1}"
        shown = re.sub(r"\]\([^)]*\)", "]", piece)
        if is_cell and len(shown) > CELL_MAX:
            found.append(f"{place}: a cell of {len(shown)} characters: put details below the table: {shown[:60]}..")
        spoken = re.sub(r"`[^`]*`", "`", shown)
        for phrasing, better in BANNED.items() if ANY_BANNED.search(spoken) else ():
            if match := re.search(phrasing, spoken):
                around = spoken[max(0, match.start() - 40) : match.end() + 20]
                found.append(f"{place}: `{match[0]}`: write {better}: ..{around}..")
    return found


@cache
def sources():
    """The Rust files of each crate."""
    names = rust.sources()
    return {crate: list(of_crate) for crate, of_crate in groupby(sorted(names, key=rust.crate), rust.crate)}


def is_rust(text):
    """Whether an example is of a Rust file: it begins with a comment or an attribute."""
    return text.startswith(("//", "#["))


@pytest.mark.parametrize("name", documents())
def test_a_document_is_in_plain_english(name):
    found = breaches(name, (ROOT / name).read_text())
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("crate", sources())
def test_comments_and_errors_of_a_crate_are_in_plain_english(crate):
    found = [line for name in sources()[crate] for line in breaches(name, (ROOT / name).read_text())]
    assert not found, "\n" + "\n".join(found)


def test_there_are_documents():
    assert {"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/python.md", "docs/benchmarks/gpu.md", "slurm/README.md"} <= set(documents())


def test_there_are_crates():
    assert {"app/config", "fuzz", "gpu-receiver", "libs/core", "proto", "src", "tests"} <= set(sources())


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
        "//! Reads shards, of\n//! which two are kept.",
        '// An apostrophe\'s string\nlet text = "//"; // what a worker is told',
        "/// Takes so many bytes.\nfn take(bytes: u64) {}",
        '#[error("`{}` lies beside folders, so that their names are no classes")]\nBeside,',
        "A milliard samples of the seed system",
        "| part | of it decode |",
        '#[error(\n    "shard `{name}` cannot be \\\n     had")]\nShard,',
        '//\nreturn Err(anyhow!(r#"{} cannot "be had"#, name(")")));',
        '//\nfile.read().with_context(|| format!("the file has not a header"))?;',
    ],
)
def test_a_breach_is_found(text):
    assert breaches("x.rs" if is_rust(text) else "x.md", text)


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
        "/// Takes `bytes` bytes.\nfn take_alone(bytes: u64) {}",
        "/// Waits for what a worker is\n\n/// told by `of which`.",
        '// A quote: \'"\'\nlet name = "is told"; // what the key `alone` says',
        '#[error("shard `{alone}` is not available")]\nShard,',
        '//\nensure!(is_open(), "the file does not have a header"); print("alone");',
    ],
)
def test_plain_english_passes(text):
    assert not breaches("x.rs" if is_rust(text) else "x.md", text)
