"""Torchtnt's train(), with a TrainUnit and its own checkpoints."""

import contextlib

import headwater
import torch
from headwater.integrations.torchtnt import ResumeCallback
from images import Images, dataloader, identities, loader, unpacked
from scenarios import Plan, Step
from torchdata.stateful_dataloader import StatefulDataLoader
from torchtnt.framework.callback import Callback
from torchtnt.framework.callbacks.dcp_saver import DistributedCheckpointSaver
from torchtnt.framework.train import train as run
from torchtnt.framework.unit import TrainUnit

NAME = "torchtnt"
PACKAGES = ("torchtnt", "torchdata")


def opened(kind, folder):
    return loader(folder) if kind == "headwater" else dataloader(Images(folder), StatefulDataLoader)


class Unit(TrainUnit):
    """One weight; keeps what its steps were given."""

    def __init__(self):
        super().__init__()
        self.module = torch.nn.Linear(3, 1)
        self.steps = []

    def train_step(self, state, data):
        images, labels = unpacked(data)
        self.steps.append(Step(self.train_progress.num_epochs_completed, identities(images, labels)))


class Lost(Exception):
    """The job is lost: `state.stop()` would count its epoch as completed."""


class Leave(Callback):
    """Ends the training after a number of steps."""

    def __init__(self, after):
        self.after = after

    def on_train_step_end(self, state, unit):
        if len(unit.steps) == self.after:
            raise Lost


def train(loader, plan: Plan) -> list[Step]:
    unit, callbacks = Unit(), [ResumeCallback()] if isinstance(loader, headwater.Loader) else []
    if plan.checkpoint:
        every = {"save_every_n_train_steps": plan.leave_after} if plan.leave_after else {"save_every_n_epochs": 1}
        callbacks.append(DistributedCheckpointSaver(str(plan.checkpoint), **every))
    if plan.leave_after:
        callbacks.append(Leave(plan.leave_after))
    if plan.resume:
        DistributedCheckpointSaver.restore_from_latest(str(plan.resume), unit, train_dataloader=loader)
    with contextlib.suppress(Lost):
        run(unit, loader, max_epochs=plan.epochs, max_steps_per_epoch=plan.limit, callbacks=callbacks)
    return unit.steps
