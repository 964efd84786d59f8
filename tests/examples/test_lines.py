"""The lines that start the examples: what is written beside them is what is in the guide, and runs."""

import ast
import re
import shlex
import subprocess
import sys

import headwater
import pytest

from conftest import EXAMPLES, LIMIT_S, ROOT, environment

SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if '__name__ == "__main__"' in path.read_text())
COMMAND = re.compile(r"^    (python (?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)


def line_of(script) -> str:
    """The first command of a script's docstring, on one line."""
    text = ast.get_docstring(ast.parse(script.read_text()), clean=False)
    return " ".join(COMMAND.search(text)[1].replace("\\\n", " ").split())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_guide_has_the_line_of_the_docstring(script):
    line = line_of(script)
    assert line.startswith(f"python examples/{script.name} ")
    assert line in (ROOT / "docs" / "examples.md").read_text().splitlines()


@pytest.mark.skipif("data:" not in headwater.Loader.__doc__, reason="this Loader takes no data")
def test_a_line_starts_its_own_services():
    _, *arguments = shlex.split(line_of(EXAMPLES / "curriculum.py"))
    command = [sys.executable, *arguments, "--steps", "10", "--then-steps", "10"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("share of the second dataset") == 2
