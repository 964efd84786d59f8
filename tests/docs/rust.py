"""What Rust sources say to people: their comments, and the texts of their errors."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Written by a compiler of protobuf files.
GENERATED = ("proto/generated/",)

# Each alternative begins with a character of its own: the search skips code quickly.
TOKEN = re.compile(
    r"""//(?P<comment>[^\n]*)
      | \#(?<=r\#)(?P<hashes>\#*)"(?P<raw>.*?)"\#(?P=hashes)
      | "(?<=r")(?P<bare>[^"]*)"
      | "(?P<string>(?:[^"\\]|\\.)*)"
      | '(?:\\[^\n]+?|[^\\'\n])'""",
    re.DOTALL | re.VERBOSE,
)
ERROR = re.compile(r"#\[error\(|\b(?:anyhow|bail|ensure)!\(|\.(?:with_)?context\(")


def sources() -> list[str]:
    """The tracked Rust files that people write, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if not name.startswith(GENERATED)]


def crate(name: str) -> str:
    """The crate of a file, or its folder at the top."""
    parts = name.split("/")
    return "/".join(parts[: 2 if parts[0] in ("app", "libs") else 1])


def line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1


def comments(code: str) -> Iterator[tuple[int, str]]:
    """First line and text of each comment. Lines with the same marker directly below each other are one comment."""
    begun, marker, end, said = 0, "", 0, []
    for token in TOKEN.finditer(code):
        if token["comment"] is None:
            continue
        mark, words = re.match(r"([/!]?)(.*)", token["comment"]).groups()
        between = code[end : token.start()]
        if mark != marker or between.count("\n") != 1 or between.strip():
            if said:
                yield begun, "\n".join(said)
            begun, marker, said = line(code, token.start()), mark, []
        said.append(words)
        end = token.end()
    if said:
        yield begun, "\n".join(said)


def error_texts(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string of `#[error(..)]`, `anyhow!`, `bail!`, `ensure!` and `context`."""
    if not ERROR.search(code):
        return
    strings = {}

    def blank(token: re.Match) -> str:
        text = next((token[kind] for kind in ("string", "raw", "bare") if token[kind] is not None), None)
        if text is not None:
            strings[token.start()] = re.sub(r"\\\n\s*", "", text)
        return " " * len(token[0])

    blanked = TOKEN.sub(blank, code)
    for call in ERROR.finditer(blanked):
        depth, end = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(blanked[end], 0)
            end += 1
        for at, text in strings.items():
            if call.end() <= at < end:
                yield line(code, at), text
