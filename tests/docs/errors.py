"""The error texts of the program, as its sources have them."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ATTRIBUTE = re.compile(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
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
    return path.parts[0] if path.parts[0] not in ("libs",) else path.parts[1]


def texts() -> list[ErrorText]:
    found = []
    for path in sources():
        code = (ROOT / path).read_text().split("#[cfg(test)]\nmod tests {")[0]
        items = list(ITEM.finditer(code))
        for attribute in ATTRIBUTE.finditer(code):
            text = unescaped(attribute[1])
            if not re.search(r"[A-Za-z]", re.sub(r"\{[^}]*\}", "", text)):
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


if __name__ == "__main__":
    for one in texts():
        print(f"{one.path}\n  {one.key}\n  {one.text}")
