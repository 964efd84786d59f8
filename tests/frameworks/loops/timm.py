"""A loop as that of timm's train.py, with its model, optimizer, schedule and recovery checkpoints."""

import itertools

import timm.utils
import torch
from headwater.torch import IterableDataset
from images import SAMPLES, SIDE, dataloader, identities, loader, ranks
from scenarios import Plan, Step
from timm.data import ImageDataset
from timm.models import resume_checkpoint
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch import distributed
from torch.utils.data import DataLoader
from torchvision.transforms import ToTensor

NAME = "timm"
PACKAGES = ("timm", "torchvision")


def opened(kind, folder):
    if kind == "headwater":
        # timm's loops take tuples.
        return DataLoader(IterableDataset(loader(folder)), batch_size=None, collate_fn=lambda batch: (batch.images, batch.labels))
    return dataloader(ImageDataset(str(folder), transform=ToTensor()))


def model():
    return timm.create_model("vit_tiny_patch16_224", img_size=SIDE, patch_size=SIDE, embed_dim=12, depth=1, num_heads=2, num_classes=SAMPLES)


def train(loader, plan: Plan) -> list[Step]:
    network = model()
    optimizer = create_optimizer_v2(network, opt="sgd", lr=0.01)
    schedule = CosineLRScheduler(optimizer, t_initial=plan.epochs * len(loader), t_in_epochs=False)
    loss = torch.nn.CrossEntropyLoss()
    rank, world_size = ranks()
    saver = None
    if plan.checkpoint and rank == 0:
        plan.checkpoint.mkdir(exist_ok=True)
        saver = timm.utils.CheckpointSaver(network, optimizer, checkpoint_dir=str(plan.checkpoint), recovery_dir=str(plan.checkpoint))
    dataset = loader.dataset if hasattr(loader.dataset, "set_epoch") else None
    sampler = getattr(loader, "sampler", None)
    first = 0
    if plan.resume:
        first, position = restore(network, optimizer, plan.resume)
        if dataset is not None:
            dataset.load_state_dict(position)
            first = position["epoch"] + (position["step"] == len(loader))
    steps = []
    for epoch in range(first, plan.epochs):
        if dataset is not None:
            dataset.set_epoch(epoch)
        elif hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        for number, (images, labels) in enumerate(itertools.islice(loader, plan.limit)):
            steps.append(Step(epoch, identities(images, labels)))
            optimizer.zero_grad()
            loss(network(images), labels).backward()
            optimizer.step()
            schedule.step_update(len(steps))
            if len(steps) == plan.leave_after:
                keep(saver, plan, dataset, lambda: saver.save_recovery(epoch, number))
                return steps
        keep(saver, plan, dataset, lambda: saver.save_checkpoint(epoch, metric=None))
    return steps


def keep(saver, plan, dataset, save):
    """Writes timm's checkpoint, and next to it the loader's state."""
    if saver:
        save()
        torch.save(dataset.state_dict() if dataset is not None else None, plan.checkpoint / "loader.pt")
    if plan.checkpoint and ranks()[1] > 1:
        distributed.barrier()


def restore(network, optimizer, folder):
    """The epoch with which timm goes on, and the loader's state."""
    path = max(folder.glob("*.pth.tar"), key=lambda path: path.stat().st_mtime_ns)
    return resume_checkpoint(network, str(path), optimizer), torch.load(folder / "loader.pt")
