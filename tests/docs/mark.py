"""Writes before each block of the docs that cannot be run why not. Blocks that have a mark keep it.

    python tests/docs/mark.py            # says what would be written
    python tests/docs/mark.py --write    # writes it
"""

import re
import sys

from documents import ROOT, Block
from snippets import PROVIDED, PYTHON, all_blocks, free_names

# The first that fits says why: pages, a pattern in the code, and the mark.
SHELL_RULES = [
    (r"", r"^make (run|test|wheel)|^cargo ", "not run: it builds the program, which the tests are given"),
    (r"", r"^\$ ", "not run: a recorded session, with what it printed"),
    (r"", r"pip install", "not run: it installs the wheel, as tests/wheel does"),
    (r"", r"podman|helm |kubectl", "not run: it needs a cluster and a registry; tests/k8s does the same on a cluster of its own"),
    (r"", r"sbatch|headwater autoscale", "not run: it needs a SLURM cluster; tests/slurm has one"),
    (r"", r"^python examples/", "not run: it trains for minutes; tests/examples runs each example, shortened"),
    (r"", r"storage-host:", "runs: gpu-receiver/python/tests/test_readme.py"),
    (r"", r"headwater monitor", "not run: it watches a service until it is stopped"),
    (r"", r"doctor --(serve|link)", "not run: it measures between two hosts"),
    (r"", r"node1:|(?<!tests)/data/|/shared/|publisher:", "not run: it names hosts or data of a cluster"),
    (r"", r"headwater bench|benches/|\bDATASET\b|FOLDER_OF", "not run: it measures for minutes"),
    (r"", r"wiki_text_document|photos/\*\.tar|out-storage", "not run: it reads files of your own"),
]
PYTHON_RULES = [
    (r"^docs/migrating.md", r"\A(?!.*headwater)", "not run: the code for the other loader, which is not installed"),
    (r"", r"Connection\(", "not run: it needs a publisher; tests/publish has one"),
    (r"^docs/migrating.md", r"", "runs: tests/examples/test_migrating.py"),
    (r"^docs/python.md", r"DINODataLoader\(", "not run: it reads data of your own; gpu-receiver/python/tests/test_dino.py makes such loaders"),
    (r"^docs/python.md", r"class Paper", "runs: gpu-receiver/python/tests/test_dino.py"),
    (r"", r"storage-host:", "runs: gpu-receiver/python/tests/test_readme.py"),
    (r"", r"headwater\.ray|ray=", "not run: it needs a Ray cluster; make test-ray has one"),
    (r"", r"device=|\"cuda", "not run: it needs a GPU"),
    (r"", r"headwater\.toml", "not run: it needs the services that the file names"),
    (r"", r"import hub", "not run: it needs a hub with this dataset"),
    (r"", r"dftracer", "not run: it reads the traces of a job"),
    (r"", r"/data/", "not run: it reads data of your own"),
    (r"", r"python:mine", "not run: the text above describes the module"),
]


def mark_for(block: Block) -> "str | None":
    """What is to be written before a block, or nothing if it can be run."""
    rules = PYTHON_RULES if block.language in PYTHON else SHELL_RULES
    for page, pattern, mark in rules:
        if re.search(page, block.path) and re.search(pattern, block.code, re.MULTILINE if pattern[:2] != r"\A" else re.DOTALL):
            return mark
    if block.language in PYTHON:
        names = sorted(free_names(block) - PROVIDED)
        if names:
            return f"not run: a fragment; the text around it explains {', '.join(f'`{name}`' for name in names)}"
    return None


def main():
    write = "--write" in sys.argv
    todo: dict[str, list[tuple[int, str]]] = {}
    for block in all_blocks():
        mark = mark_for(block)
        if block.mark is None and mark is not None:
            todo.setdefault(block.path, []).append((block.line, mark))
            print(f"{block.place}: {mark}")
        elif block.mark is None:
            print(f"{block.place}: runs")
    for path, marks in todo.items() if write else ():
        lines = (ROOT / path).read_text().splitlines()
        for line, mark in sorted(marks, reverse=True):
            indent = re.match(r" *", lines[line - 1])[0]
            lines.insert(line - 1, f"{indent}<!-- {mark} -->")
        (ROOT / path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
