"""The error texts of the program, as its sources and docs/troubleshooting.md have them.

`python tests/docs/errors.py --write` puts texts that were reworded into the page. Each entry of the page has its key in a
comment: crate and name of the error, or for a sentence of a verb the file and its number there.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"

ATTRIBUTE = re.compile(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Sentences that verbs of the program end with. `ensure!` has a condition first.
MACRO = re.compile(r'\b(?:bail|anyhow|ensure)!\(')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ITEM = re.compile(r"^\s*(?:pub(?:\([a-z ]+\))? )?(enum|struct) (\w+)", re.MULTILINE)
VARIANT = re.compile(r"\s*(?:pub(?:\([a-z ]+\))? )?(?:struct )?(\w+)")


@dataclass(frozen=True)
class ErrorText:
    key: str
    text: str
    path: str


def sources() -> list[Path]:
    """Rust sources of the program and of the wheel, without tests, benches and fuzz targets."""
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    skipped = {"tests", "benches", "fuzz", "examples"}
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [path for path in paths if not skipped & set(path.parts) and path.name != "tests.rs"]


def unescaped(literal: str) -> str:
    joined = re.sub(r"\\\n\s*", "", literal)
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), joined)


def crate(path: Path) -> str:
    return path.parts[0] if path.parts[0] not in ("app", "libs") else path.parts[1]


def says_something(text: str) -> bool:
    """Whether it is more than the texts of other errors."""
    return bool(re.search(r"[A-Za-z]", re.sub(r"\{[^}]*\}", "", text)))


def arguments(code: str, start: int) -> str:
    """What stands between parentheses, the first of which is before `start`."""
    depth, at, is_within = 1, start, False
    while depth:
        char = code[at]
        if is_within:
            at += char == "\\"
            is_within = char != '"'
        elif char == "'" and code[at + 2 : at + 3] == "'":
            at += 2
        else:
            is_within = char == '"'
            depth += (char == "(") - (char == ")")
        at += 1
    return code[start : at - 1]


def sentences() -> list[ErrorText]:
    """Texts that verbs of the program write where they fail, by file and number within it."""
    found = []
    for path in sources():
        if path.parts[0] != "src":
            continue
        code = (ROOT / path).read_text().split("#[cfg(test)]\nmod tests {")[0]
        number = 0
        for macro in MACRO.finditer(code):
            literals = LITERAL.findall(arguments(code, macro.end()))
            text = unescaped(literals[0]) if literals else ""
            if says_something(text):
                number += 1
                found.append(ErrorText(f"{path}:{number}", text, str(path)))
    return found


def texts() -> list[ErrorText]:
    """Texts of all kinds of errors, by crate and name of the kind."""
    found = []
    for path in sources():
        code = (ROOT / path).read_text().split("#[cfg(test)]\nmod tests {")[0]
        items = list(ITEM.finditer(code))
        for attribute in ATTRIBUTE.finditer(code):
            text = unescaped(attribute[1])
            if not says_something(text):
                continue
            end = code.index(")]", attribute.end()) + 2
            # Other attributes and comments stand between it and what it describes.
            rest = re.sub(r"\A(\s*(#\[[^\]]*\]|///[^\n]*|//[^\n]*))*", "", code[end:])
            name = VARIANT.match(rest)[1]
            before = [item for item in items if item.start() < attribute.start()]
            is_struct = re.match(r"\s*(?:pub(?:\([a-z ]+\))? )?struct ", rest)
            owner = "" if is_struct else before[-1][2] + "::"
            found.append(ErrorText(f"{crate(path)}:{owner}{name}", text, str(path)))
    return found


def entry(key: str, text: str, remedy: str) -> str:
    """An entry of the page."""
    ticks = "``" if "`" in text else "`"
    room = " " if ticks == "``" else ""
    return f"- {ticks}{room}{text}{room}{ticks} <!-- {key} -->\\\n  {remedy}"


ENTRY = re.compile(r"^- (`+)( ?)(.+)\2\1 <!-- (\S+) -->\\\n  (\S.*)$", re.MULTILINE)


def entries(page: str) -> list[tuple[str, str, str]]:
    """Key, text and remedy of each entry of the page."""
    return [(found[4], found[3], found[5]) for found in ENTRY.finditer(page)]


def of_file(keys) -> dict[str, int]:
    """How many sentences each file has."""
    files = [key.rpartition(":")[0] for key in keys if key.startswith("src/")]
    return {file: files.count(file) for file in files}


def refreshed(page: str, now: dict[str, str]) -> str:
    """The page with the texts of today. Files whose number of sentences has changed are left to a person."""
    on_page = of_file(key for key, _, _ in entries(page))
    changed = {file for file, count in of_file(now).items() if on_page.get(file, count) != count}

    def entry_now(found: re.Match) -> str:
        key = found[4]
        if key not in now or key.rpartition(":")[0] in changed:
            return found[0]
        return entry(key, now[key], found[5])

    return ENTRY.sub(entry_now, page)


def main():
    now = {one.key: one.text for one in texts() + sentences()}
    if "--write" in sys.argv:
        PAGE.write_text(refreshed(PAGE.read_text(), now))
    else:
        print("\n".join(f"{key}\n  {text}" for key, text in now.items()))


if __name__ == "__main__":
    main()
