"""Tables of docs/keywords.md, made from the tables by which the loader takes and refuses keywords of other loaders.

`python tests/docs/keywords.py --write` puts the tables of today into the page. The wheel is not needed.
"""

import ast
import dataclasses
import importlib
import re
import sys
import types
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "keywords.md"
PACKAGE = ROOT / "gpu-receiver" / "python" / "python" / "headwater"

TABLE = re.compile(r"(<!-- keywords of (.+?), by tests/docs/keywords\.py -->\n).*?(<!-- end -->)", re.DOTALL)
DINO_LOADER = "dino_loader"


@cache
def module(name: str):
    """A module of the package as the tree has it, which imports nothing that is compiled."""
    for package, folder in (("headwater_of_tree", PACKAGE), ("headwater_of_tree.dino", PACKAGE / "dino")):
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [str(folder)]
    return importlib.import_module(f"headwater_of_tree.{name}")


@cache
def of_the_loader() -> frozenset[str]:
    """Keywords of `headwater.Loader`: those of its stub, and the keys of [receiver] and [links]."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    (loader,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Loader")
    new = next(node for node in loader.body if isinstance(node, ast.FunctionDef) and node.name == "__new__")
    return frozenset(one.arg for one in new.args.args + new.args.kwonlyargs) | keys("receiver") | keys("links")


@cache
def keys(section: str) -> frozenset[str]:
    """Keys of a section of the configuration, as its reference has them."""
    chapters = re.split(r"^## ", (ROOT / "docs" / "configuration.md").read_text(), flags=re.MULTILINE)
    (chapter,) = (one for one in chapters if one.startswith(f"`[{section}]`"))
    return frozenset(re.findall(r"^- \*\*`(\w+)`\*\*", chapter, re.MULTILINE))


def rows(loader: str) -> list[tuple[str, str, str]]:
    """What is typed with another loader, what to type here, and what happens if it is typed as it was."""
    return rows_of_config() if loader == DINO_LOADER else [row(name) for name in module("_words").LOADERS[loader]]


def row(name: str) -> tuple[str, str, str]:
    words = module("_words")
    if name in words.MEANINGS:
        return name, words.MEANINGS[name], "taken"
    if name in words.REFUSED:
        return name, words.REFUSED[name], "error with this hint"
    return name, f"`{name}=`", "taken"


def rows_of_config() -> list[tuple[str, str, str]]:
    specs = module("dino.specs")
    found = []
    for field in dataclasses.fields(specs.LoaderConfig):
        name = field.name
        if name in specs._OF_OWN_SERVICES:
            found.append((name, f"the same; with `storage` and `workers`: {specs._REPLACED[name]}", "taken, or a warning"))
        elif name in specs._REPLACED:
            found.append((name, specs._REPLACED[name], "warning with this hint"))
        else:
            found.append((name, specs._OTHER_NAMES.get(name, "the same"), "taken"))
    return found


def table(loader: str) -> str:
    """The table of one loader, in Markdown."""
    lines = ["| you type | type here | typed as before |", "| --- | --- | --- |"]
    for name, here, happens in rows(loader):
        linked = re.sub(r"\(docs/([\w-]+\.md)\)", r"([\1](\1))", here)
        lines.append(f"| `{name}` | {linked} | {happens} |")
    return "\n".join(lines) + "\n"


def refreshed(page: str) -> str:
    """The page with the tables of today."""
    return TABLE.sub(lambda found: found[1] + table(found[2]) + found[3], page)


def loaders(page: str) -> list[str]:
    """The loaders that have a table on the page."""
    return [found[2] for found in TABLE.finditer(page)]


def unknown(page: str) -> list[str]:
    """Keywords `name=` and keys `section.key` that the page says to type and that neither loader nor configuration has."""
    cells = [re.split(r"(?<!\\)\|", line)[2] for line in page.splitlines() if line.startswith("|")]
    code = [one for cell in cells for one in re.findall(r"`([^`]+)`", cell)]
    named = {name for one in code for name in re.findall(r"(?:^|[(, ])(\w+)=", one) if name.islower()}
    dotted = {tuple(one.split(".")) for one in code if re.fullmatch(r"(storage|augment|recipe|receiver|links)\.\w+", one)}
    return sorted(named - of_the_loader() - {"allow"}) + sorted(
        f"{section}.{key}" for section, key in dotted if key not in keys(section)
    )


def main():
    page = PAGE.read_text()
    if "--write" in sys.argv:
        PAGE.write_text(refreshed(page))
    else:
        print("".join(table(loader) for loader in loaders(page)))


if __name__ == "__main__":
    main()
