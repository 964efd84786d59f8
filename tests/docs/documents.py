"""Markdown files of the tree: their links, anchors and blocks of code."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FENCE = re.compile(r"^( *)(```+|~~~+) *([\w+-]*)[^\n]*$")
# What a link or a picture leads to; a picture may be the text of a link.
LINK = re.compile(r"\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
MARK = re.compile(r"^\s*<!-- (not run|runs): (.+?) -->$")


@dataclass(frozen=True)
class Block:
    """A block of code between fences."""

    path: str
    line: int
    language: str
    code: str
    mark: "tuple[str, str] | None"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def listed(pattern: str = "*.md") -> list[str]:
    """Files that git tracks, or will when they are added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({line for line in done.stdout.splitlines() if (ROOT / line).exists()})


def split(text: str) -> "tuple[list[str], list[tuple[int, str, list[str], str]]]":
    """Lines outside of blocks of code (blank where a block is), and the blocks: line, language, lines, line before."""
    prose, blocks, opened = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = (number, fence, [], prose[-1] if prose else "")
            prose.append("")
        elif opened is not None:
            prose.append("")
            if fence and fence[2].startswith(opened[1][2]) and not fence[3]:
                blocks.append((opened[0], opened[1][3], opened[2], opened[3]))
                opened = None
            else:
                opened[2].append(line[len(opened[1][1]):] if line.startswith(opened[1][1]) else line)
        else:
            prose.append(line)
    return prose, blocks


def blocks(path: str) -> list[Block]:
    _, found = split((ROOT / path).read_text())
    made = []
    for line, language, lines, before in found:
        mark = MARK.match(before)
        made.append(Block(path, line, language, "\n".join(lines) + "\n", (mark[1], mark[2]) if mark else None))
    return made


def without_code(line: str) -> str:
    return re.sub(r"(`+)(?:(?!\1).)*\1", "`", line)


def links(text: str) -> list[tuple[int, str]]:
    """Line and target of each link and picture outside of code."""
    prose, _ = split(text)
    found = []
    for number, line in enumerate(prose, 1):
        for target in LINK.findall(without_code(line)):
            found.append((number, target))
        for target in re.findall(r"(?:src|srcset|href)=\"([^\"\s]+)\"", line):
            found.append((number, target))
    return found


def anchors(text: str) -> set[str]:
    """Names of headings as GitHub makes them, and names that are set in HTML."""
    prose, _ = split(text)
    found, seen = set(), {}
    for line in prose:
        found.update(re.findall(r"(?:id|name)=\"([^\"]+)\"", line))
        heading = HEADING.match(line)
        if not heading:
            continue
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        plain = re.sub(r"<!--.*?-->|[`*]", "", plain).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        times = seen.get(name, 0)
        seen[name] = times + 1
        found.add(f"{name}-{times}" if times else name)
    return found
