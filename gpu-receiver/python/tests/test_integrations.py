"""Callbacks of transformers and torchtnt, and small stand-ins for their loops: only tests/frameworks has the frameworks."""

import types

import headwater
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
accelerate = pytest.importorskip("accelerate.data_loader", reason="Accelerate is not installed")

from headwater.integrations import torchtnt, transformers  # noqa: E402
from headwater.torch import IterableDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4
EPOCHS = 3

# `Trainer._inner_training_loop` as far as it concerns data. The dataset looks for callers of this module.
TRAINER = """
class Trainer:
    def __init__(self, dataloader, callbacks, args, skip_first_batches):
        self.dataloader, self.callbacks, self.args, self.skip = dataloader, callbacks, args, skip_first_batches
        self.steps = []

    def evaluate(self, dataloader):
        return sum(1 for _ in dataloader)

    def train(self, state, epochs, evaluated=None):
        self.state, self.callback_handler = state, type("CallbackHandler", (), {"train_dataloader": self.dataloader})
        accumulated = self.args.gradient_accumulation_steps
        updates = -(-len(self.dataloader) // accumulated)
        first, trained = divmod(state.global_step, updates)
        skipped = 0 if self.args.ignore_data_skip else trained * accumulated
        for callback in self.callbacks:
            callback.on_train_begin(self.args, state, None, train_dataloader=self.dataloader)
        for epoch in range(first, epochs):
            for callback in self.callbacks:
                callback.on_epoch_begin(self.args, state, None)
            resumed = skipped > 0 and epoch == first
            for number, batch in enumerate(self.skip(self.dataloader, skipped) if resumed else self.dataloader, skipped if resumed else 0):
                self.steps.append((batch.epoch, batch.step, [sample.key for sample in batch.samples]))
                state.global_step += (number + 1) % accumulated == 0 or number + 1 == len(self.dataloader)
            if evaluated is not None:
                assert self.evaluate(evaluated) == len(evaluated)
        return self.steps
"""


@pytest.fixture
def trained(make):
    """Steps of a Trainer over a new loader, resumed after `global_step` updates."""
    of_module = {"__name__": "transformers.trainer"}
    exec(TRAINER, of_module)

    def trained(global_step=0, callbacks=True, accumulated=1, ignore_data_skip=False, evaluated=None, place=None, epochs=EPOCHS):
        dataset = IterableDataset(make())
        if place is not None:
            place(dataset)
        args = types.SimpleNamespace(gradient_accumulation_steps=accumulated, ignore_data_skip=ignore_data_skip)
        given = [transformers.ResumeCallback()] if callbacks else []
        dataloader = DataLoader(dataset, batch_size=None)
        trainer = of_module["Trainer"](dataloader, given, args, accelerate.skip_first_batches)
        return trainer.train(types.SimpleNamespace(global_step=global_step), epochs, evaluated)

    return trained


# 16 batches an epoch: 3 updates of 5 batches, and one of a single batch.
@pytest.mark.parametrize(
    ("accumulated", "global_step", "steps"), [(1, 0, 0), (1, 5, 5), (1, 16, 16), (1, 21, 21), (5, 4, 16), (5, 3, 15), (5, 6, 26)]
)
def test_a_trainer_goes_on_after_its_last_batch(trained, accumulated, global_step, steps):
    assert trained(global_step, accumulated=accumulated) == trained(accumulated=accumulated)[steps:]


def test_a_trainer_that_skips_no_data_begins_its_epoch_again(trained):
    assert trained(21, ignore_data_skip=True) == trained()[STEPS:]


@pytest.mark.parametrize(("global_step", "ignore_data_skip"), [(5, False), (16, False), (16, True), (21, False), (21, True)])
def test_a_trainer_that_resumes_without_the_callback_is_refused(trained, global_step, ignore_data_skip):
    with pytest.raises(headwater.ConfigError, match=r"callbacks=\[headwater.integrations.transformers.ResumeCallback\(\)\]"):
        trained(global_step, callbacks=False, ignore_data_skip=ignore_data_skip)


def test_a_fresh_trainer_needs_no_callback_and_may_evaluate(trained, make):
    evaluated = DataLoader(IterableDataset(make(datasets=["others"])), batch_size=None)
    assert trained(callbacks=False, evaluated=evaluated) == trained()


def test_a_trainer_whose_epoch_was_set_by_hand_needs_no_callback(trained):
    whole = trained()
    assert trained(16, callbacks=False, place=lambda dataset: dataset.set_epoch(1)) == whole[STEPS:]
    assert trained(16, callbacks=False, place=lambda dataset: dataset.loader.seek(1, 0)) == whole[STEPS:]


def test_a_trainer_over_other_data_is_refused():
    other = DataLoader([1, 2, 3])
    with pytest.raises(headwater.ConfigError, match=r"return `DataLoader\(IterableDataset\(loader\), batch_size=None\)`"):
        transformers.ResumeCallback().on_train_begin(None, None, None, train_dataloader=other)


class Progress(types.SimpleNamespace):
    """A unit's progress."""

    def increment_step(self):
        self.num_steps_completed_in_epoch += 1

    def increment_epoch(self):
        self.num_epochs_completed += 1
        self.num_steps_completed_in_epoch = 0


class Unit:
    """Keeps its steps, and which of its epochs have ended."""

    def __init__(self, epoch=0, step=0):
        self.train_progress = Progress(num_epochs_completed=epoch, num_steps_completed_in_epoch=step)
        self.steps, self.ended, self.evaluated = [], [], []

    def get_next_train_batch(self, state, batches):
        return next(batches)

    def train_step(self, batch):
        self.steps.append((batch.epoch, batch.step, batch.keys))

    def on_train_epoch_end(self, state):
        self.ended.append(self.train_progress.num_epochs_completed)


class Other:
    """A callback that only counts epochs."""

    def __init__(self):
        self.ended = []

    def on_train_start(self, state, unit):
        pass

    def on_train_epoch_start(self, state, unit):
        pass

    def on_train_epoch_end(self, state, unit):
        self.ended.append(unit.train_progress.num_epochs_completed)

    def on_train_end(self, state, unit):
        pass


def fit(unit, data, callbacks, epochs=EPOCHS, limit=None):
    """torchtnt's loop as far as it concerns data."""
    state, progress = types.SimpleNamespace(train_state=types.SimpleNamespace(dataloader=data)), unit.train_progress

    def call(name):
        for callback in callbacks:
            getattr(callback, name)(state, unit)

    call("on_train_start")
    while progress.num_epochs_completed < epochs:
        if progress.num_steps_completed_in_epoch == 0:
            call("on_train_epoch_start")
        batches = iter(data)
        while limit is None or progress.num_steps_completed_in_epoch < limit:
            try:
                unit.train_step(unit.get_next_train_batch(state, batches))
            except StopIteration:
                break
            progress.increment_step()
        progress.increment_epoch()
        unit.on_train_epoch_end(state)
        call("on_train_epoch_end")
        unit.evaluated.append(progress.num_epochs_completed)
    call("on_train_end")


@pytest.mark.parametrize(
    ("epoch", "step", "limit"),
    [(0, 0, None), (0, 5, None), (1, 0, None), (1, 16, None), (2, 16, None), (0, 5, 8), (1, 8, 8), (2, 8, 8)],
)
def test_a_unit_goes_on_after_its_last_step_and_ends_every_epoch(make, epoch, step, limit):
    whole, resumed, other = Unit(), Unit(epoch, step), Other()
    fit(whole, make(), [torchtnt.ResumeCallback()], limit=limit)
    fit(resumed, make(), [torchtnt.ResumeCallback(), other], limit=limit)
    left = epoch * (limit or STEPS) + step
    assert len(whole.steps) == EPOCHS * (limit or STEPS) and whole.steps[left:] == resumed.steps
    assert resumed.ended == resumed.evaluated == other.ended == list(range(epoch + 1, EPOCHS + 1))
    assert "get_next_train_batch" not in vars(resumed)


def test_a_unit_that_is_trained_to_its_end_has_its_method_again(make):
    unit, callback = Unit(0, STEPS), torchtnt.ResumeCallback()
    fit(unit, make(), [callback], epochs=0)
    assert unit.steps == [] and "get_next_train_batch" not in vars(unit)


def test_a_unit_over_other_data_is_refused():
    with pytest.raises(headwater.ConfigError, match="finds no headwater.Loader in torchtnt's list"):
        fit(Unit(), [1, 2, 3], [torchtnt.ResumeCallback()])
