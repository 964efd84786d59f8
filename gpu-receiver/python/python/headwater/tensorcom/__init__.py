"""The API of Tensorcom: programs for it run after changing one import.

    from headwater.tensorcom import Connection

    for images, labels in Connection("zrpull://publisher:7410"):
        step(images, labels)

Messages and files are those of the PyPI package tensorcom: either side may be it. Needs NumPy, and pyzmq for
anything but files: `pip install 'headwater[tensorcom]'`.
"""

from .connection import Connection
from .tenbin import load, save

__all__ = ["Connection", "load", "save"]
