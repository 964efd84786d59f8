"""open_clip's own `train_one_epoch`, with its own `get_data` or with Headwater's."""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path

import numpy
import open_clip
import open_clip_train.data
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from open_clip.transform import image_transform
from open_clip_train.train import train_one_epoch

from .figures import BATCH, EPOCHS, Log
from .photos import SAMPLES

SIDE = 32
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)


def arguments(shards: str, seed: int = 0, **others) -> types.SimpleNamespace:
    """What main.py makes of its command line, as far as data and a training on the processor read it."""
    data = {"train_data": shards, "val_data": None, "dataset_type": "auto", "imagenet_val": None, "imagenet_v2": None}
    data |= {"train_num_samples": SAMPLES, "val_num_samples": None, "train_data_upsampling_factors": None, "dataset_resampled": False}
    run = {"seed": seed, "batch_size": BATCH, "workers": 0, "world_size": 1, "rank": 0, "distributed": False, "accum_freq": 1}
    loop = {"device": "cpu", "precision": "fp32", "distill": False, "skip_scheduler": True, "horovod": False, "grad_clip_norm": None}
    loop |= {"log_every_n_steps": 1000, "wandb": False}
    return types.SimpleNamespace(**{**data, **run, **loop, **others})


def get_data(kind: str, args, tokenizer=None, **options):
    """The same call of either `get_data`."""
    preprocess = image_transform(SIDE, is_train=True), image_transform(SIDE, is_train=False)
    tokenizer = tokenizer or open_clip.get_tokenizer("ViT-B-32")
    if kind == "upstream":
        return open_clip_train.data.get_data(args, preprocess, epoch=0, tokenizer=tokenizer)
    from headwater.integrations.open_clip import get_data

    return get_data(args, preprocess, epoch=0, tokenizer=tokenizer, embedded="threads", **options)


def close(data) -> None:
    for info in data.values():
        if hasattr(info.dataloader, "close"):
            info.dataloader.close()


def network():
    vision = CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=8, image_size=SIDE)
    text = CLIPTextCfg(context_length=77, vocab_size=49408, width=32, heads=2, layers=1)
    model = CLIP(embed_dim=32, vision_cfg=vision, text_cfg=text, output_dict=True)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def seeded(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


class Recorded(ClipLoss):
    """open_clip's loss, which keeps its values."""

    def __init__(self):
        super().__init__()
        self.values = []

    def forward(self, *given, **named):
        found = super().forward(*given, **named)
        self.values.append(found["contrastive_loss"].item())
        return found


def losses(kind: str, shards: str, seed: int, steps: int) -> list[float]:
    seeded(seed)
    args = arguments(shards, seed)
    model, optimizer = network()
    data, loss, epoch = get_data(kind, args), Recorded(), 0
    while len(loss.values) < steps:
        train_one_epoch(model, data, loss, epoch, optimizer, None, None, None, args)
        epoch += 1
    close(data)
    return loss.values[:steps]


class Watched:
    """A dataloader that logs what each step was trained on, when the next batch is asked for."""

    def __init__(self, dataloader, trained):
        self._dataloader, self._trained = dataloader, trained
        self.num_batches, self.num_samples = dataloader.num_batches, dataloader.num_samples

    def __iter__(self):
        for images, texts in self._dataloader:
            yield images, texts
            self._trained(texts)


def train(kind: str, shards: str, out: Path, kill_after: int) -> None:
    """Two epochs; a caption is a photograph. A checkpoint has what main.py saves, and the loader's state."""
    seeded(0)
    args, tokenizer, path = arguments(shards), open_clip.get_tokenizer("ViT-B-32"), out / "checkpoint.pt"
    model, optimizer = network()
    data, log, first = get_data(kind, args), Log(out, kill_after), 0
    loader = data["train"].dataloader
    if not kill_after:
        checkpoint = torch.load(path)
        first = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        if kind == "headwater":
            first = loader.resume(checkpoint["loader"])

    def save():
        checkpoint = {"epoch": epoch, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
        if kind == "headwater":
            checkpoint["loader"] = loader.state_dict()
        torch.save(checkpoint, path)

    def trained(texts):
        log.trained(epoch, [tokenizer.decode(row[row > 0].tolist()) for row in texts], save)

    data["train"].dataloader = Watched(loader, trained)
    for epoch in range(first, EPOCHS):
        train_one_epoch(model, data, Recorded(), epoch, optimizer, None, None, None, args)
    data["train"].dataloader = loader
    close(data)


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
