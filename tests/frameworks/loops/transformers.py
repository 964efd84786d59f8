"""The Trainer of transformers. The control is its own DataLoader."""

import tempfile

import torch
from headwater.integrations.transformers import ResumeCallback
from headwater.torch import IterableDataset
from images import BATCH, SEED, NamedImages, identities, loader
from scenarios import Plan, Step
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

NAME = "transformers"
PACKAGES = ("transformers", "accelerate")


def opened(kind, folder):
    return DataLoader(IterableDataset(loader(folder)), batch_size=None) if kind == "headwater" else NamedImages(folder)


class Model(torch.nn.Module):
    """A small network with dropout."""

    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(3, 8), torch.nn.Linear(8, 1))

    def forward(self, images, labels):
        return {"loss": self.network(images.mean(dim=(2, 3))).mean()}


class OwnLoader(Trainer):
    """With the loader that it was given in place of its own."""

    def get_train_dataloader(self):
        # Some prepare it.
        is_prepared = self.args.accelerator_config.dispatch_batches is False
        return self.accelerator.prepare(self.train_dataset) if is_prepared else self.train_dataset


class Record(TrainerCallback):
    """Ends epochs, or the run, where the plan does."""

    def __init__(self, plan):
        self.plan, self.in_epoch, self.in_all = plan, 0, 0

    def on_epoch_begin(self, args, state, control, **_):
        self.in_epoch = 0

    def on_step_end(self, args, state, control, **_):
        self.in_epoch += 1
        self.in_all += 1
        control.should_epoch_stop = self.in_epoch == self.plan.limit
        if self.in_all == self.plan.leave_after:
            control.should_training_stop = True
            control.should_save = self.plan.checkpoint is not None


def trainer(loader, plan: Plan, **arguments) -> Trainer:
    """A Trainer whose `steps` are what it has trained on."""
    logging.set_verbosity_error()
    is_ours = isinstance(loader, DataLoader)
    callbacks = [Record(plan), *([ResumeCallback()] if is_ours else [])]
    steps = []

    class Recorded(OwnLoader if is_ours else Trainer):
        def training_step(self, model, inputs, *rest, **options):
            # Epochs that are limited end before their last step, and the state's epoch is a part of one.
            epoch = int(self.state.epoch) if plan.limit is None else len(steps) // plan.limit
            steps.append(Step(epoch, identities(inputs["images"], inputs["labels"])))
            return super().training_step(model, inputs, *rest, **options)

    arguments = {"save_strategy": "epoch" if plan.checkpoint and not plan.leave_after else "no", **arguments}
    options = TrainingArguments(
        str(plan.checkpoint or plan.resume or tempfile.gettempdir()),
        num_train_epochs=plan.epochs,
        per_device_train_batch_size=BATCH,
        dataloader_drop_last=True,
        seed=SEED,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
        **arguments,
    )
    torch.manual_seed(SEED)
    made = Recorded(Model(), options, train_dataset=loader, callbacks=callbacks)
    made.steps = steps
    return made


def train(loader, plan: Plan) -> list[Step]:
    made = trainer(loader, plan)
    made.train(resume_from_checkpoint=plan.resume is not None)
    return made.steps
