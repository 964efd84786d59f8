"""The stubs say what the built modules have, and docs/python.md describes it."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import headwater
import pytest
from conftest import PROJECT

GUIDE = (PROJECT / "docs" / "python.md").read_text()
LIMIT_S = 600


def test_stubs_are_the_modules(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    here = Path(__file__).parent
    options = ["--allowlist", here / "stubtest.allow", "--mypy-config-file", here.parent / "pyproject.toml"]
    command = [sys.executable, "-m", "mypy.stubtest", "headwater", "--concise", *map(str, options)]
    # In an empty folder: no file there is taken for a module.
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def public():
    """Every module of the package that says what is public, and the names; `headwater.errors` says it by its classes."""
    modules = [headwater]
    for found in pkgutil.walk_packages(headwater.__path__, "headwater."):
        needs_torch = found.name == "headwater.torch" or found.name.startswith("headwater.integrations.")
        if "._" in found.name or (needs_torch and not importlib.util.find_spec("torch")):
            continue
        modules.append(importlib.import_module(found.name))
    names = {module.__name__: getattr(module, "__all__", []) for module in modules}
    names["headwater.errors"] = [name for name, _ in inspect.getmembers(headwater.errors, inspect.isclass)]
    return [(module, name) for module, public in names.items() for name in public]


def test_every_public_name_is_described():
    names = public()
    assert {"headwater", "headwater.dino", "headwater.distributed", "headwater.fp8"} <= {module for module, _ in names}
    missing = [f"{module}.{name}" for module, name in names if not re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", GUIDE)]
    assert not missing


def test_every_method_and_attribute_is_described():
    members = []
    for module, name in public():
        thing = getattr(sys.modules[module], name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            members += [(f"{module}.{name}", member) for member in own(thing)]
    missing = sorted({f"{owner}.{member}" for owner, member in members if not re.search(rf"\b{member}\b", GUIDE)})
    assert not missing


def own(thing):
    """Public attributes that a class of this package has itself, fields of dataclasses among them."""
    classes = [one for one in thing.__mro__ if one.__module__.startswith("headwater")]
    names = {name for one in classes for name in [*vars(one), *vars(one).get("__annotations__", {})]}
    return sorted(name for name in names if not name.startswith("_"))
