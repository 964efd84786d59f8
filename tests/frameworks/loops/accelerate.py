"""Accelerate's loop. PyTorch's loader is prepared; Headwater's has this rank's batches already, and only its state is saved."""

import itertools

import headwater
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from images import BATCH, Images, identities, loader, unpacked
from scenarios import Plan, Step
from torch.utils.data import DataLoader

NAME = "Accelerate"
PACKAGES = ("accelerate", "torchdata")


def opened(kind, folder):
    if kind == "headwater":
        return loader(folder)
    # Accelerate divides it among ranks.
    return DataLoader(Images(folder), batch_size=BATCH, shuffle=True, drop_last=True)


def train(loader, plan: Plan) -> list[Step]:
    configuration = DataLoaderConfiguration(use_stateful_dataloader=True, use_seedable_sampler=True, dispatch_batches=False)
    accelerator = Accelerator(cpu=True, dataloader_config=configuration)
    model = torch.nn.Linear(3, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    is_ours = isinstance(loader, headwater.Loader)
    batches = loader if is_ours else accelerator.prepare(loader)
    steps, progress = [], Progress()
    accelerator.register_for_checkpointing(progress, *([loader] if is_ours else []))
    if plan.resume:
        accelerator.load_state(str(plan.resume))
    for epoch in range(progress.epoch, plan.epochs):
        batches.set_epoch(epoch)
        for batch in itertools.islice(batches, plan.limit):
            images, labels = unpacked(batch)
            steps.append(Step(epoch, identities(images, labels)))
            optimizer.zero_grad()
            accelerator.backward(model(images.mean(dim=(2, 3))).mean())
            optimizer.step()
            if len(steps) == plan.leave_after:
                if plan.checkpoint:
                    accelerator.save_state(str(plan.checkpoint))
                accelerator.free_memory()
                return steps
        progress.epoch = epoch + 1
        if plan.checkpoint:
            accelerator.save_state(str(plan.checkpoint))
    accelerator.free_memory()
    return steps


class Progress:
    """The epoch, in Accelerate's checkpoints."""

    def __init__(self):
        self.epoch = 0

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
