"""Where installing this package puts its program."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import NoReturn


def found() -> list[str]:
    user = "posix_user"
    if sys.version_info >= (3, 10):
        user = sysconfig.get_preferred_scheme("user")
    # `pip install --target` puts scripts beside the packages.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user), beside]
    return [folder for folder in places if folder]


# Found when the package is imported: `sysconfig` fills its tables when it is first asked, and a second thread that asks
# meanwhile finds them half full.
FOLDERS = found()


def folders() -> list[str]:
    """Folders in which `headwater` may be, best first."""
    return FOLDERS


def become(*arguments: str) -> NoReturn:
    """Goes on as the program `headwater` with these arguments: the one that a loader would start."""
    # That module asks this one for the folders.
    from ._native import program

    path = program()
    if path is None:
        looked = f"{', '.join(FOLDERS)}, PATH"
        sys.exit(f"there is no program `headwater` in {looked}: install the package again, or name it in the variable HEADWATER_PROGRAM")
    try:
        os.execv(path, [path, *arguments])
    except OSError as error:
        sys.exit(f"cannot start `{path}`: {error}")
