"""`python -m headwater.dino.monitor ..`: `headwater monitor ..`, where dino_loader's scripts look for it."""

import sys

from .._scripts import become

if __name__ == "__main__":
    become("monitor", *sys.argv[1:])
