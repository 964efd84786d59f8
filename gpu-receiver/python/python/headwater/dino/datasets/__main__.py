"""`python -m headwater.dino.datasets VERB ..`: `headwater datasets VERB ..`, with dino_loader's root."""

import sys

from ..._scripts import become
from . import root

OF_HUB = ("preview", "count", "add", "stubs")


def main(*arguments: str) -> None:
    """Goes on as the program."""
    names_root = any(argument.split("=")[0] == "--root" for argument in arguments)
    if arguments[:1] and arguments[0] in OF_HUB and not names_root:
        arguments += ("--root", str(root()))
    become("datasets", *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
