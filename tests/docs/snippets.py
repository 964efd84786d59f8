"""Blocks of code of the docs: which are run, and what can be said of those that are not.

A block of shell or Python is run by test_snippets.py, in a folder with photographs. If it cannot be, the line before it says
why: `<!-- not run: REASON -->`, or `<!-- runs: FILE -->` with the test that runs it.
"""

import ast
import builtins
import re
import shlex
import symtable
from pathlib import Path

from documents import ROOT, Block, blocks, listed

SHELL, PYTHON = {"sh", "bash", "shell", "console"}, {"python", "py"}
# Written by the program, with the command that was run.
GENERATED = {"docs/benchmarks/machine/report.md", "docs/configuration.md"}
# Names that a block of Python may use without defining them; test_snippets.py gives them.
PROVIDED = {"headwater", "numpy", "itertools", "sys", "epochs", "step", "jpeg_bytes", "data", "loader"}
STUBS = ROOT / "gpu-receiver" / "python" / "python" / "headwater"


def all_blocks() -> list[Block]:
    """Of README.md and of docs, each block of shell or Python."""
    pages = ["README.md", *listed("docs/*.md")]
    found = [block for page in pages if page not in GENERATED for block in blocks(page)]
    return [block for block in found if block.language in SHELL | PYTHON]


# === Shell ===


def commands(block: Block) -> list[list[str]]:
    """Words of each simple command of a block of shell."""
    code = re.sub(r"\\\n\s*", " ", block.code)
    found = []
    for line in code.splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        words = shlex.split(line, comments=True)
        current: list[str] = []
        for word in [*words, ";"]:
            ended = word in (";", "&&", "||", "|", "do", "done")
            if not ended:
                current.append(word[:-1] if word.endswith(";") else word)
            if ended or word.endswith(";"):
                while current and re.match(r"^[A-Za-z_]\w*=", current[0]):
                    current.pop(0)
                if current:
                    found.append(current)
                current = []
    return found


def faults_of_shell(block: Block, help_of) -> list[str]:
    """Verbs, flags, targets and files that a block names and that are not there. `help_of` gives the help of a verb."""
    found = []
    for words in commands(block):
        name, rest = words[0], words[1:]
        if Path(name).name == "headwater":
            found += faults_of_command(rest, help_of)
        elif name == "make":
            makefile = (ROOT / "Makefile").read_text()
            targets = [word for word in rest if "=" not in word and not word.startswith("-")]
            found += [f"no target {one}" for one in targets if not re.search(rf"^{one}:", makefile, re.MULTILINE)]
        for word in words:
            if re.match(r"^(slurm|scripts|benches|examples|helm)/[\w./-]+$", word) and not (ROOT / word).exists():
                found.append(f"no file {word}")
    return [f"{block.place}: {fault}" for fault in found]


def faults_of_command(words: list[str], help_of) -> list[str]:
    """Verbs and flags of one command of the program that its help does not have."""
    words = list(words)
    verbs: list[str] = []
    text = help_of(())
    while words and words[0] == "--config":
        words = words[2:]
    while words and re.match(r"^[a-z]+$", words[0]) and re.search(rf"^  {words[0]}(  |$)", text, re.MULTILINE):
        verbs.append(words.pop(0))
        text = help_of(tuple(verbs))
    if not verbs and words and not words[0].startswith("-"):
        return [f"no verb `{words[0]}`"]
    flags = [word.partition("=")[0] for word in words if re.match(r"^--[a-z]", word)]
    there = set(re.findall(r"--[a-z][\w-]*", text))
    return [f"`headwater {' '.join(verbs)}` has no flag {flag}" for flag in flags if flag not in there]


# === Python ===


def parsed(block: Block) -> ast.Module:
    # `f(a=1, ...)` leaves out arguments; it is no Python.
    return ast.parse(re.sub(r",\s*\.\.\.\)", ")", block.code))


def free_names(block: Block) -> set[str]:
    """Names that a block uses and does not define."""
    code = re.sub(r",\s*\.\.\.\)", ")", block.code)
    top = symtable.symtable(code, block.place, "exec")
    defined = {name.get_name() for name in top.get_symbols() if name.is_assigned() or name.is_imported()}

    def used(table) -> set[str]:
        names = {name.get_name() for name in table.get_symbols() if name.is_referenced() and name.is_global()}
        if table is top:
            names = {name.get_name() for name in table.get_symbols() if name.is_referenced()}
        return names.union(*(used(child) for child in table.get_children()))

    return used(top) - defined - set(dir(builtins)) - {"__class__"}


def stub(module: str) -> "ast.Module | None":
    """The stub of `headwater` or of a module of it, else its source."""
    base = STUBS.joinpath(*module.split(".")[1:])
    for path in (base / "__init__.pyi", base.with_suffix(".pyi"), base / "__init__.py", base.with_suffix(".py")):
        if path.exists():
            return ast.parse(path.read_text())
    return None


def names_in(tree: ast.Module) -> set[str]:
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def loader_keywords() -> set[str]:
    """Keywords of `headwater.Loader`: of its stub, and the keys of [receiver]."""
    body = next(node for node in stub("headwater").body if isinstance(node, ast.ClassDef) and node.name == "Loader").body
    new = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__new__")
    names = {argument.arg for argument in [*new.args.args, *new.args.kwonlyargs]} - {"cls"}
    page = (ROOT / "docs" / "configuration.md").read_text()
    section = re.search(r"^## `\[receiver\]`$(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)[1]
    keys = re.findall(r"^- \*\*`(\w+)`", section, re.MULTILINE)
    return names | set(keys) | {"curriculum", "curriculum_between"}


def faults_of_python(block: Block) -> list[str]:
    """Names and keywords of Headwater's that a block uses and that are not there."""
    found = []
    for node in ast.walk(parsed(block)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headwater":
            tree = stub(node.module)
            there = names_in(tree) if tree else set()
            found += [f"{node.module} has no {one.name}" for one in node.names if one.name not in there]
        elif isinstance(node, ast.Attribute):
            found += faults_of_attribute(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "headwater.Loader":
            keywords = {keyword.arg for keyword in node.keywords if keyword.arg}
            found += [f"headwater.Loader has no keyword {one}" for one in sorted(keywords - loader_keywords())]
    return [f"{block.place}: {fault}" for fault in found]


def faults_of_attribute(node: ast.Attribute) -> list[str]:
    owner = ast.unparse(node.value)
    if owner != "headwater" and not re.match(r"^headwater\.[a-z_]+$", owner):
        return []
    tree = stub(owner)
    if tree is None or node.attr in names_in(tree) or stub(f"{owner}.{node.attr}"):
        return []
    return [f"{owner} has no {node.attr}"]
