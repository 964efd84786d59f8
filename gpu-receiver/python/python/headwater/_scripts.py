"""Where installing this package puts its program."""

from __future__ import annotations

import os
import sys
import sysconfig


def folders() -> list[str]:
    """Folders in which `headwater` may be, best first."""
    user = "posix_user"
    if sys.version_info >= (3, 10):
        user = sysconfig.get_preferred_scheme("user")
    # `pip install --target` puts scripts beside the packages.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    found = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user), beside]
    return [folder for folder in found if folder]
