"""A loop of one's own, as in PyTorch's tutorials."""

import itertools

import torch
from images import Images, dataloader, identities, loader, ranks, unpacked
from scenarios import Plan, Step
from torch import distributed

NAME = "PyTorch"
PACKAGES = ("torch",)


def opened(kind, folder):
    return loader(folder) if kind == "headwater" else dataloader(Images(folder))


def train(loader, plan: Plan) -> list[Step]:
    steps, first = [], 0
    if plan.resume:
        state = torch.load(plan.resume)
        first = state["epoch"]
        if hasattr(loader, "load_state_dict"):
            loader.load_state_dict(state["loader"])
    for epoch in range(first, plan.epochs):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for batch in itertools.islice(loader, plan.limit):
            images, labels = unpacked(batch)
            steps.append(Step(epoch, identities(images, labels)))
            if len(steps) == plan.leave_after:
                save(loader, plan, epoch)
                return steps
        save(loader, plan, epoch + 1)
    return steps


def save(loader, plan, epoch):
    rank, world_size = ranks()
    if plan.checkpoint and rank == 0:
        state = loader.state_dict() if hasattr(loader, "state_dict") else None
        torch.save({"epoch": epoch, "loader": state}, plan.checkpoint)
    if world_size > 1:
        distributed.barrier()
