"""Student and teacher out of upstream's own modules, in the steps of its `SSLMetaArch`, on the processor: for DINOv2 and DINOv3.

Not its train.py itself, which needs GPUs, FSDP and, in DINOv2, xFormers.
"""

from __future__ import annotations

import functools
import importlib
import random
from pathlib import Path

import numpy
import torch
import torchvision

from . import upstreams
from .figures import BATCH, EPOCHS, Log
from .photos import SAMPLES

SIDE, LOCAL_SIDE, LOCALS, PATCH = 32, 16, 2, 4
WIDTH, PROTOTYPES = 24, 64
SCALES = (0.32, 1.0), (0.05, 0.32)
STEPS_OF_EPOCH = SAMPLES // BATCH
TEMPERATURE, MOMENTUM = 0.07, 0.99
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)


def upstream_data(name: str):
    upstreams.use(name)
    return importlib.import_module(f"{name}.data")


def transform(name: str, **others):
    sizes = {"global_crops_size": SIDE, "local_crops_size": LOCAL_SIDE, **others}
    return upstream_data(name).DataAugmentationDINO(*SCALES, LOCALS, **sizes)


def collate(name: str, side: int = SIDE, **others):
    """As train.py makes it."""
    data, grid = upstream_data(name), side // PATCH
    generator = data.MaskingGenerator(input_size=(grid, grid), max_num_patches=0.5 * side // PATCH * side // PATCH)
    settings = {"mask_ratio_tuple": (0.1, 0.5), "mask_probability": 0.5, "dtype": torch.half, "n_tokens": grid**2}
    return functools.partial(data.collate_data_and_cast, **{**settings, "mask_generator": generator, **others})


def create(name: str, kind: str, folder: Path, seed: int = 0, sampler_advance: int = 0, of_transform=None, of_collate=None, **options):
    """The same calls of either `make_dataset` and `make_data_loader`; and the photographs of each batch, as they come."""
    data, seen = upstream_data(name), []
    of_transform, of_collate = of_transform or transform(name), of_collate or collate(name)
    common = {"batch_size": BATCH, "num_workers": 0, "shuffle": True, "seed": seed, "sampler_type": data.SamplerType.SHARDED_INFINITE}
    common |= {"sampler_advance": sampler_advance, "drop_last": True}
    if kind == "upstream":
        # Its own datasets read files of their own beside the images.
        dataset = torchvision.datasets.ImageFolder(str(folder), transform=of_transform)
        return data.make_data_loader(dataset=dataset, collate_fn=Noting(of_collate, seen), **common), seen
    ours = importlib.import_module(f"headwater.integrations.{name}")
    dataset = ours.make_dataset(dataset_str=str(folder), transform=of_transform, target_transform=lambda _: ())
    loader = ours.make_data_loader(dataset=dataset, collate_fn=of_collate, **common, embedded="threads", **options)
    loader.loader = Watched(loader.loader, seen)
    return loader, seen


def combined(kind: str, loaders, ratios):
    """The same call of either `CombinedDataLoader`."""
    ours = importlib.import_module("headwater.integrations.dinov3")
    made = {"upstream": upstream_data("dinov3"), "headwater": ours}[kind].CombinedDataLoader
    return made(zip(loaders, ratios), batch_size=BATCH, combining_mode=0, seed=65537, name="MultiResDL")


class Noting:
    """Upstream's collate function, which notes the photographs."""

    def __init__(self, inner, seen):
        self._inner, self._seen = inner, seen

    def __call__(self, samples):
        self._seen.append([number for _, number in samples])
        return self._inner(samples)


class Watched:
    """A `headwater.Loader` whose batches are noted."""

    def __init__(self, loader, seen):
        self._loader, self._seen = loader, seen

    def __iter__(self):
        for batch in self._loader:
            self._seen.append(batch.labels.torch().tolist())
            yield batch

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)


def close(loader) -> None:
    if hasattr(loader, "close"):
        loader.close()


def network(name: str):
    vision = importlib.import_module(f"{name}.models.vision_transformer")
    size = {"img_size": SIDE, "patch_size": PATCH, "embed_dim": WIDTH, "depth": 1, "num_heads": 2}
    of_name = {"dinov2": {"block_chunks": 0}, "dinov3": {"pos_embed_rope_dtype": "fp32", "device": "cpu"}}
    backbone = vision.DinoVisionTransformer(**size, **of_name[name])
    head = importlib.import_module(f"{name}.layers.dino_head").DINOHead(WIDTH, PROTOTYPES, nlayers=2, hidden_dim=48, bottleneck_dim=16)
    if name == "dinov3":
        backbone.init_weights()
        head.init_weights()
        # So that the loss moves within 100 steps; DINOv2's head begins like this.
        torch.nn.init.normal_(head.last_layer.weight, std=0.25)
    return torch.nn.ModuleDict({"backbone": backbone, "head": head})


class Pair(torch.nn.Module):
    """Student and teacher, with both losses."""

    def __init__(self, name: str) -> None:
        super().__init__()
        upstreams.use(name)
        self.dino = importlib.import_module(f"{name}.loss.dino_clstoken_loss").DINOLoss(PROTOTYPES)
        self.ibot = importlib.import_module(f"{name}.loss.ibot_patch_loss").iBOTPatchLoss(PROTOTYPES)
        self.student, self.teacher = network(name), network(name)
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self._is_v3 = name == "dinov3"
        if self._is_v3:
            self.dino.init_weights()
            self.ibot.init_weights()

    def loss(self, batch) -> torch.Tensor:
        crops, local = batch["collated_global_crops"].float(), batch["collated_local_crops"].float()
        masks, indices = batch["collated_masks"], batch["mask_indices_list"]
        with torch.no_grad():
            found = self.teacher["backbone"](crops, is_training=True)
            of_class = self.teacher["head"](found["x_norm_clstoken"])
            of_patches = self.teacher["head"](found["x_norm_patchtokens"].flatten(0, 1)[indices])
            wanted, wanted_patches = self._targets(of_class, of_patches)
        found = self.student["backbone"](crops, masks=masks, is_training=True)
        given = self.student["head"](found["x_norm_clstoken"])
        given_patches = self.student["head"](found["x_norm_patchtokens"].flatten(0, 1)[indices])
        given_local = self.student["head"](self.student["backbone"](local, is_training=True)["x_norm_clstoken"])
        of_ibot = self.ibot.forward_masked(
            given_patches, wanted_patches, student_masks_flat=masks, n_masked_patches=len(indices), masks_weight=batch["masks_weight"]
        )
        return self._dino_loss(given, given_local, wanted) + of_ibot

    def _targets(self, of_class, of_patches):
        """As both are configured: DINOv2 centres, DINOv3 uses Sinkhorn and Knopp's algorithm."""
        if self._is_v3:
            # Of one process, that of iBOTPatchLoss is the same, and needs a process group.
            found = [self.dino.sinkhorn_knopp_teacher(one, TEMPERATURE) for one in (of_class, of_patches)]
        else:
            found = [self.dino.softmax_center_teacher(of_class, TEMPERATURE)]
            found.append(self.ibot.softmax_center_teacher(of_patches.unsqueeze(0), TEMPERATURE).squeeze(0))
            self.dino.update_center(of_class)
            self.ibot.update_center(of_patches.unsqueeze(0))
        return found[0].unflatten(0, (2, -1)), found[1]

    def _dino_loss(self, given, local, wanted) -> torch.Tensor:
        terms = 2 * LOCALS + 2
        if self._is_v3:
            of_locals = self.dino(local.unflatten(0, (LOCALS, -1)), wanted) * 2 * LOCALS
            return (of_locals + self.dino(given.unflatten(0, (2, -1)), wanted, ignore_diagonal=True) * 2) / terms
        of_locals = self.dino(local.chunk(LOCALS), list(wanted))
        return (of_locals + self.dino([given], [wanted.flip(0).flatten(0, 1)]) * 2) / terms

    @torch.no_grad()
    def update_teacher(self) -> None:
        for theirs, ours in zip(self.teacher.parameters(), self.student.parameters()):
            theirs.mul_(MOMENTUM).add_(ours, alpha=1 - MOMENTUM)


def seeded(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def started(name: str, seed: int):
    seeded(seed)
    model = Pair(name)
    return model, torch.optim.AdamW(model.student.parameters(), lr=1e-3)


def step(model, optimizer, batch) -> float:
    loss = model.loss(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.update_teacher()
    return loss.item()


def losses(name: str, kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    model, optimizer = started(name, seed)
    loader, _ = create(name, kind, folder, seed)
    found = [step(model, optimizer, batch) for _, batch in zip(range(steps), loader)]
    close(loader)
    return found


def train(name: str, kind: str, folder: Path, out: Path, kill_after: int) -> None:
    """As many steps as two epochs have; a class is a photograph. The checkpoint is upstream's: weights and the iteration."""
    model, optimizer = started(name, 0)
    path, start = out / "checkpoint.pt", 0
    if not kill_after:
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["iteration"] + 1
    # As train.py has them, and as the page replaces them.
    seed = 0 if kind == "headwater" else start + 1 if name == "dinov3" else start
    advance = start * BATCH if kind == "headwater" or name == "dinov3" else 0
    loader, seen = create(name, kind, folder, seed, advance)
    log = Log(out, kill_after)
    for iteration, batch in zip(range(start, EPOCHS * STEPS_OF_EPOCH), loader):
        step(model, optimizer, batch)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iteration": iteration}
        log.trained(iteration // STEPS_OF_EPOCH, seen[-1], lambda state=state: torch.save(state, path))
    close(loader)
