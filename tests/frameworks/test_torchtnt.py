"""torchtnt's AutoUnit, which takes a batch in advance."""

import contextlib

import pytest

pytestmark = pytest.mark.long
STEPS = 16


@pytest.fixture
def trained(loop, images, tmp_path):
    """The steps of a run with an AutoUnit: the samples of each."""
    import torch
    from images import identities, loader
    from torchtnt.framework.auto_unit import AutoUnit

    module = loop("torchtnt")

    class Unit(AutoUnit):
        def __init__(self):
            super().__init__(module=torch.nn.Linear(3, 1), device=torch.device("cpu"))
            self.steps = []

        def configure_optimizers_and_lr_scheduler(self, network):
            return torch.optim.SGD(network.parameters(), lr=0.1), None

        def compute_loss(self, state, data):
            self.steps.append(identities(data["images"], data["labels"]))
            return self.module(data["images"].mean(dim=(2, 3))).mean(), None

    def trained(leave_after=None, resume=False):
        from headwater.torch import IterableDataset

        unit, callbacks = Unit(), [module.ResumeCallback()]
        with loader(images) as opened:
            data = IterableDataset(opened)
            if leave_after:
                saver = module.DistributedCheckpointSaver(str(tmp_path), save_every_n_train_steps=leave_after)
                callbacks += [saver, module.Leave(leave_after)]
            if resume:
                module.DistributedCheckpointSaver.restore_from_latest(str(tmp_path), unit, train_dataloader=data)
            with contextlib.suppress(module.Lost):
                module.run(unit, data, max_epochs=3, callbacks=callbacks)
        return unit.steps

    return trained


@pytest.mark.parametrize("leave_after", [STEPS + 5, STEPS])
def test_a_batch_that_was_taken_in_advance_is_not_lost(trained, leave_after):
    whole = trained()
    left = trained(leave_after=leave_after)
    assert len(whole) == 3 * STEPS and len(left) == leave_after
    assert left + trained(resume=True) == whole


def test_an_epoch_whose_last_step_was_saved_ends_with_its_evaluation(loop, images, tmp_path):
    from images import loader
    from torchtnt.framework.fit import fit
    from torchtnt.framework.unit import EvalUnit

    module = loop("torchtnt")

    class Unit(module.Unit, EvalUnit):
        def __init__(self):
            super().__init__()
            self.evaluated = []

        def eval_step(self, state, data):
            self.evaluated.append(self.train_progress.num_epochs_completed)

    class Ends(module.Callback):
        def __init__(self):
            self.epochs = []

        def on_train_epoch_end(self, state, unit):
            self.epochs.append(unit.train_progress.num_epochs_completed)

    def run(*callbacks, resume=False):
        unit, ends = Unit(), Ends()
        with loader(images) as data:
            if resume:
                module.DistributedCheckpointSaver.restore_from_latest(str(tmp_path), unit, train_dataloader=data)
            with contextlib.suppress(module.Lost):
                every = [module.ResumeCallback(), ends, *callbacks]
                fit(unit, data, [0], max_epochs=3, evaluate_every_n_epochs=1, callbacks=every)
        return unit.steps, unit.evaluated, ends.epochs

    whole = run()
    left = run(module.DistributedCheckpointSaver(str(tmp_path), save_every_n_train_steps=STEPS), module.Leave(STEPS))
    assert whole[1:] == ([1, 2, 3], [1, 2, 3]) and left[1:] == ([], [])
    assert [before + after for before, after in zip(left, run(resume=True))] == list(whole)


def test_data_without_a_loader_are_refused(loop, images):
    import headwater
    from images import Images, dataloader

    module = loop("torchtnt")
    with pytest.raises(headwater.ConfigError, match="finds no headwater.Loader in torchtnt's DataLoader"):
        module.run(module.Unit(), dataloader(Images(images)), max_epochs=1, callbacks=[module.ResumeCallback()])
