"""lightly-train's own `pretrain`, on the processor: with its own loader, or with that of headwater.integrations.lightly_train."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# Nothing is sent, and nothing asks for newer versions.
os.environ["LIGHTLY_TRAIN_EVENTS_DISABLED"] = os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"

import lightly_train
import torch
from lightly_train._methods.method import Method
from torch import nn

from .figures import BATCH, EPOCHS, SAVED_EVERY, Log
from .photos import SAMPLES

SIDE, LOCAL_SIDE = 28, 14
STEPS_OF_EPOCH = SAMPLES // BATCH
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)

_SIZES = {"image_size": (SIDE, SIDE)}
_LOCALS = {**_SIZES, "local_view": {"num_views": 2, "view_size": (LOCAL_SIDE, LOCAL_SIDE)}}
_HEADS = {"hidden_dim": 48, "dino_bottleneck_dim": 16, "ibot_bottleneck_dim": 16, "output_dim": 64, "warmup_steps": 10}
#: What each method is trained with, so that 100 steps take seconds.
METHODS = {
    "simclr": {"method_args": {"hidden_dim": 32, "output_dim": 16}, "transform_args": _SIZES},
    "dino": {"method_args": {"hidden_dim": 48, "bottleneck_dim": 16, "output_dim": 64}, "transform_args": _LOCALS},
    "dinov2": {"method_args": _HEADS, "transform_args": _LOCALS},
    "dinov31": {"method_args": {**_HEADS, "paka_num_local": 4}, "transform_args": {**_LOCALS, "paka_num_local": 4}},
}
OF_VITS = ("dinov2", "dinov31")


class Network(nn.Module):
    """A small network with what lightly-train asks of one."""

    def __init__(self):
        super().__init__()
        layers = (nn.Conv2d(3, 16, 4, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.layers = nn.Sequential(*layers)

    def feature_dim(self):
        return 32

    def forward_features(self, x):
        return {"features": self.layers(x)}

    def forward_pool(self, x):
        return {"pooled_features": x["features"].mean((2, 3), keepdim=True)}

    def get_model(self):
        return self


def pretrain(kind: str, folder, out: Path, method: str = "simclr", seed: int = 0, steps: int = 0, resume: bool = False, **others) -> None:
    """The same call of either `pretrain`; a checkpoint is written every few steps."""
    settings = METHODS[method]
    # A killed run leaves a list of files there, which the next one of that name refuses.
    os.environ["LIGHTLY_TRAIN_CACHE_DIR"] = str(out.parent / "cache")
    trainer = {"max_steps": steps or -1, "enable_model_summary": False}
    arguments = {
        "out": out,
        "data": folder,
        # Weights follow from the seed, whatever was drawn before.
        "model": "dinov2/_vittest14" if method in OF_VITS else seeded(seed),
        "method": method,
        "epochs": -(-steps // STEPS_OF_EPOCH) if steps else EPOCHS,
        "batch_size": BATCH,
        "num_workers": 0,
        "devices": 1,
        "accelerator": "cpu",
        "seed": seed,
        "loggers": {"tensorboard": None},
        "callbacks": {"model_checkpoint": {"every_n_train_steps": SAVED_EVERY}},
        "optim": "adamw",
        "optim_args": {"lr": 2e-3},
        "trainer_args": trainer,
        "resume_interrupted": resume,
        **settings,
    }
    if kind == "upstream":
        lightly_train.pretrain(**arguments)
        return
    from headwater.integrations.lightly_train import pretrain

    own = {"paka_windows": True} if method == "dinov31" else {}
    pretrain(**{**arguments, **own, "embedded": "threads", **others})


def seeded(seed: int) -> Network:
    torch.manual_seed(seed)
    return Network()


class Watched:
    """Calls a function with each step's loss and batch, after its checkpoint is written."""

    def __init__(self, trained):
        self._trained = trained

    def __enter__(self):
        self._own, trained = Method.on_train_batch_end, self._trained

        def on_train_batch_end(method, outputs, batch, batch_idx):
            self._own(method, outputs=outputs, batch=batch, batch_idx=batch_idx)
            trained(method, outputs["loss"].item(), batch)

        Method.on_train_batch_end = on_train_batch_end
        return self

    def __exit__(self, *_):
        Method.on_train_batch_end = self._own


def losses(kind: str, folder, seed: int, steps: int, method: str = "simclr") -> list[float]:
    found: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, Watched(lambda _, loss, batch: found.append(loss)):
        pretrain(kind, folder, Path(scratch) / "out", method, seed, steps)
    return found


def train_on_ranks(folder: str, out: Path, ranks: int) -> None:
    """Two epochs in Lightning's processes, each of which writes the photographs of its steps."""

    def trained(method, _, batch):
        with (out / f"rank-{method.global_rank}.txt").open("a") as file:
            file.write("".join(f"{method.current_epoch} {name}\n" for name in batch["filename"]))

    with Watched(trained):
        pretrain("headwater", folder, out / "run", devices=ranks)


def train(kind: str, folder: str, out: Path, kill_after: int) -> None:
    """Two epochs, whose checkpoints are Lightning's."""
    log = Log(out, kill_after)
    with Watched(lambda method, _, batch: log.trained(method.current_epoch, list(batch["filename"]), lambda: None)):
        pretrain(kind, folder, out / "run", resume=not kill_after)


if __name__ == "__main__":
    if sys.argv[1] == "ranks":
        train_on_ranks(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        sys.exit()
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
