"""What the folders of a dataset must be so that labels are timm's."""

from __future__ import annotations

import os
import re
from typing import Any

from .. import Loader
from ..errors import ConfigError

__all__ = ["check_classes", "check_depth", "located"]


def located(dataset: Any) -> Any:
    """A path, or the paths that a dataset of timm reads."""
    root = getattr(getattr(dataset, "reader", None), "root", None)
    if isinstance(root, (str, os.PathLike)):
        raise ConfigError(f"`dataset` is timm's {type(dataset).__name__}, which reads by itself: give its path, {os.fspath(root)!r}")
    return dataset


def check_depth(dataset: Any) -> None:
    """That no folder lies within the folder of a class: timm names a class after the folder that an image lies in."""
    if not isinstance(dataset, (str, os.PathLike)) or not os.path.isdir(dataset):
        return
    with os.scandir(os.fspath(dataset)) as top:
        classes = sorted(entry.path for entry in top if entry.is_dir())
    for folder in classes:
        with os.scandir(folder) as entries:
            below = next((entry.path for entry in entries if entry.is_dir()), None)
        if below is not None:
            raise ConfigError(
                f"{below!r} is a folder in the folder of a class: its images are of class {os.path.basename(folder)!r} here, and in timm of one "
                "named after their own folder; move them up, or give a `headwater.Loader`"
            )


def check_classes(loader: Loader) -> None:
    """That classes of a folder have the numbers that timm gives them: it sorts digits in names as numbers."""
    classes = loader.classes
    if not classes:
        return
    natural = sorted(classes, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())])
    if natural != list(classes):
        number = next(number for number, pair in enumerate(zip(natural, classes)) if pair[0] != pair[1])
        loader.close()
        raise ConfigError(
            f"class {number} is {classes[number]!r} here and {natural[number]!r} in timm, which sorts numbers in the names of folders: "
            "rename the folders, with as many digits and in lower case, or give a `headwater.Loader`"
        )
