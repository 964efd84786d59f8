"""DINOv2, with its own loader or with Headwater's."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from . import dino_runs

losses = functools.partial(dino_runs.losses, "dinov2")

if __name__ == "__main__":
    dino_runs.train("dinov2", sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
