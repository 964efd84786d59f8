"""Checkouts of training repositories that are not on PyPI: folders of $HEADWATER_UPSTREAMS, each with a repository's name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "HEADWATER_UPSTREAMS"
# A file that each has at the commit that its page names.
FILES = {
    "dinov2": "dinov2/data/collate.py",
    "dinov3": "dinov3/data/meta_loaders.py",
    "mae": "engine_pretrain.py",
    "ijepa": "src/masks/multiblock.py",
}


def folder(name: str) -> Path | None:
    """Where a checkout lies, if it is there."""
    given = os.environ.get(VARIABLE)
    found = Path(given).resolve() / name if given else None
    return found if found and (found / FILES[name]).exists() else None


def use(name: str) -> None:
    """Makes the modules of a checkout importable."""
    found = folder(name)
    if found is None:
        raise ModuleNotFoundError(f"no checkout of {name}: clone it into ${VARIABLE}/{name}")
    if str(found) not in sys.path:
        sys.path.insert(0, str(found))
