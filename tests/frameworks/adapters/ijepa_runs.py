"""I-JEPA's own src/train.py, on the processor: with its own loader, or with the lines of docs/integrations/ijepa.md."""

from __future__ import annotations

import csv
import functools
import sys
import tempfile
from pathlib import Path

import torch

from . import edits, upstreams
from .figures import BATCH, EPOCHS, SAVED_EVERY, Log
from .photos import SAMPLES

SIDE, PATCH = 32, 4
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)


def arguments(folder: Path, out: Path, epochs: int, resume: bool) -> dict:
    """A configuration as in configs/, of a tiny run."""
    data = {"batch_size": BATCH, "color_jitter_strength": 0.0, "crop_scale": [0.3, 1.0], "crop_size": SIDE, "image_folder": "."}
    data |= {"num_workers": 0, "pin_mem": False, "root_path": str(folder)}
    data |= {"use_color_distortion": False, "use_gaussian_blur": False, "use_horizontal_flip": False}
    mask = {"allow_overlap": False, "aspect_ratio": [0.75, 1.5], "enc_mask_scale": [0.85, 1.0], "min_keep": 4, "num_enc_masks": 1}
    mask |= {"num_pred_masks": 4, "patch_size": PATCH, "pred_mask_scale": [0.15, 0.2]}
    meta = {"copy_data": False, "load_checkpoint": resume, "model_name": "vit_micro", "pred_depth": 1, "pred_emb_dim": 24}
    meta |= {"read_checkpoint": None, "use_bfloat16": False}
    optimization = {"ema": [0.99, 1.0], "epochs": epochs, "final_lr": 1e-6, "final_weight_decay": 0.4, "ipe_scale": 1.0, "lr": 1e-3}
    optimization |= {"start_lr": 2e-4, "warmup": 1, "weight_decay": 0.04}
    logging = {"folder": f"{out}/", "write_tag": "jepa"}
    return {"data": data, "mask": mask, "meta": meta, "optimization": optimization, "logging": logging}


def main(kind: str, folder: Path, out: Path, watched, seed: int, epochs: int, resume: bool = False) -> None:
    """src.train.main; `watched` takes the labels of each step, after it."""
    upstreams.use("ijepa")
    import src.models.vision_transformer as vit
    from torch import distributed
    from torch.utils import data

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)

    def micro(patch_size, **named):
        return vit.VisionTransformer(patch_size=patch_size, embed_dim=24, depth=1, num_heads=2, mlp_ratio=4, qkv_bias=True, **named)

    vit.vit_micro = micro
    mine = kind == "headwater"
    entry = edits.module("ijepa", "src/train.py", is_ours=mine, saved_every=SAVED_EVERY)

    def noted(batches):
        for batch in batches:
            yield batch
            watched(batch[0][1].tolist())

    torch.manual_seed(seed)
    given = arguments(folder, out, epochs, resume)
    if mine:
        entry.make_imagenet1k = functools.partial(watching, entry.make_imagenet1k, noted, seed=seed, embedded="threads")
        entry.main(given)
        return

    class Watched(data.DataLoader):
        def __iter__(self):
            return noted(super().__iter__())

    own, data.DataLoader = data.DataLoader, Watched
    try:
        entry.main(given)
    finally:
        data.DataLoader = own


def watching(make_imagenet1k, noted, **arguments):
    """Headwater's `make_imagenet1k`, with a loader whose batches are noted."""
    dataset, loader, sampler = make_imagenet1k(**arguments)
    kind = type(loader)
    loader.__class__ = type("Watched", (kind,), {"__iter__": lambda self: noted(kind.__iter__(self))})
    return dataset, loader, sampler


def losses(kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    with tempfile.TemporaryDirectory() as out:
        main(kind, folder, Path(out), lambda _: None, seed, epochs=-(-steps // (SAMPLES // BATCH)))
        with open(f"{out}/jepa_r0.csv") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)][:steps]


def train(kind: str, folder: Path, out: Path, kill_after: int) -> None:
    """Two epochs; a class is a photograph. A line of the page saves, in both kinds."""
    log, steps, first = Log(out, kill_after), SAMPLES // BATCH, 0
    if not kill_after:
        checkpoint = torch.load(out / "jepa-latest.pth.tar")
        state = checkpoint["loader"] if kind == "headwater" else {"epoch": checkpoint["epoch"], "step": 0}
        first = steps * state["epoch"] + state["step"]

    def watched(labels):
        log.trained((first + log.steps) // steps, labels, lambda: None)

    main(kind, folder, out, watched, 0, EPOCHS, resume=not kill_after)


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
