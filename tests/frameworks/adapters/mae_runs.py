"""MAE's own main_pretrain.py, on the processor: with its own loader, or with the lines of docs/integrations/mae.md."""

from __future__ import annotations

import builtins
import os
import sys
import types
from pathlib import Path

import numpy
import timm
import torch

from . import edits, upstreams
from .figures import BATCH, EPOCHS, SAVED_EVERY, Log
from .photos import SAMPLES

SIDE = 32
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)


class EnoughSteps(Exception):
    """A training that has as many steps as are measured."""


def old_names() -> None:
    """What upstream of 2022 takes from torch, NumPy and timm 0.3.2 and they have no more; and what waits for a GPU."""
    import timm.models.vision_transformer
    import timm.optim

    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    sys.modules["torch._six"] = types.SimpleNamespace(inf=float("inf"))
    numpy.float = float
    torch.cuda.synchronize = lambda: None
    timm.__version__ = "0.3.2"
    sys.modules["timm.optim.optim_factory"] = timm.optim.optim_factory = types.SimpleNamespace(
        add_weight_decay=timm.optim.param_groups_weight_decay
    )

    class Block(timm.models.vision_transformer.Block):
        def __init__(self, *given, qk_scale=None, **named):
            super().__init__(*given, **named)

    timm.models.vision_transformer.Block = Block


def main(kind: str, folder: Path, out: Path, watched, losses: list, steps: int | None = None, **arguments) -> None:
    """main_pretrain.main; `watched` takes the labels of each step, after it."""
    upstreams.use("mae")
    if timm.__version__ != "0.3.2":
        old_names()
    import models_mae
    from torch.utils import data

    class Tiny(models_mae.MaskedAutoencoderViT):
        def __init__(self, **named):
            size = {"img_size": SIDE, "patch_size": 4, "embed_dim": 24, "depth": 1, "num_heads": 2}
            decoder = {"decoder_embed_dim": 24, "decoder_depth": 1, "decoder_num_heads": 2}
            super().__init__(**size, **decoder, **named)

        def forward(self, *given, **named):
            if len(losses) == steps:
                raise EnoughSteps
            found = super().forward(*given, **named)
            losses.append(found[0].item())
            return found

    models_mae.tiny = Tiny
    mine = kind == "headwater"
    sys.modules["engine_pretrain"] = edits.module("mae", "engine_pretrain.py", is_ours=mine, saved_every=SAVED_EVERY)
    entry = edits.module("mae", "main_pretrain.py", is_ours=mine)
    args = entry.get_args_parser().parse_args([])
    given = {"model": "tiny", "batch_size": BATCH, "input_size": SIDE, "data_path": str(folder), "device": "cpu", "num_workers": 0}
    given |= {"log_dir": None, "output_dir": str(out), "lr": 1e-3, "warmup_epochs": 1, "pin_mem": False}
    vars(args).update({**given, **arguments})

    class Watched(entry.DataLoader if mine else data.DataLoader):
        def __init__(self, *given, **named):
            super().__init__(*given, **named, **({"embedded": "threads", "seed": args.seed} if mine else {}))

        def __iter__(self):
            for samples, labels in super().__iter__():
                yield samples, labels
                watched(labels.tolist())

    # Upstream replaces `print`, too.
    own, printed = data.DataLoader, builtins.print
    if mine:
        entry.DataLoader = Watched
    else:
        data.DataLoader = Watched
    try:
        entry.main(args)
    finally:
        data.DataLoader, builtins.print = own, printed


def losses(kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    found: list[float] = []
    try:
        main(kind, folder, folder, lambda _: None, found, steps, seed=seed, epochs=10, output_dir="")
    except EnoughSteps:
        return found
    raise AssertionError(f"the training ended after {len(found)} steps")


def train(kind: str, folder: Path, out: Path, kill_after: int) -> None:
    """Two epochs; a class is a photograph. A line of the page saves, in both kinds."""
    log, steps = Log(out, kill_after), SAMPLES // BATCH
    resume, first = "" if kill_after else str(out / "mid.pth"), 0
    if resume:
        checkpoint = torch.load(resume, weights_only=False)
        # misc.load_model begins with the next epoch.
        state = checkpoint["loader"] if kind == "headwater" else {"epoch": checkpoint["epoch"] + 1, "step": 0}
        first = steps * state["epoch"] + state["step"]

    def watched(labels):
        log.trained((first + log.steps) // steps, labels, lambda: None)

    main(kind, folder, out, watched, [], epochs=EPOCHS, resume=resume)


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
