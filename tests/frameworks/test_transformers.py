"""transformers' Trainer with ResumeCallback: weights, accumulated gradients, and what is said without it."""

import pytest
from conftest import NEEDS

pytestmark = pytest.mark.long
NEEDS["transformers"] = ("transformers", "accelerate")
EPOCHS = 4


@pytest.fixture
def trained(loop, images, tmp_path):
    """Trains with the loop's Trainer, and closes the loader."""
    from scenarios import Plan, close

    module = loop("transformers")

    def trained(leave_after=None, resume=False, callbacks=True, **arguments):
        data = module.opened("headwater", images)
        folder = tmp_path / ("checkpoint" if leave_after or resume else "whole")
        plan = Plan(EPOCHS, leave_after=leave_after, checkpoint=folder, resume=folder if resume else None)
        trainer = module.trainer(data, plan, **arguments)
        if not callbacks:
            trainer.remove_callback(module.ResumeCallback)
        try:
            trainer.train(resume_from_checkpoint=resume)
        finally:
            close(data)
        return trainer

    return trained


def weights(trainer):
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


# 16 batches an epoch: 3 updates of 5 batches, and one of a single batch.
@pytest.mark.parametrize(("accumulated", "leave_after"), [(1, 20), (4, 6), (5, 5), (5, 7)])
def test_a_resumed_run_ends_with_the_same_weights_to_the_bit(trained, accumulated, leave_after):
    import torch

    options = {"gradient_accumulation_steps": accumulated}
    whole = trained(**options)
    left = trained(leave_after=leave_after, **options)
    resumed = trained(resume=True, **options)
    assert left.steps + resumed.steps == whole.steps
    assert len(left.steps) < len(whole.steps)
    assert all(map(torch.equal, weights(resumed), weights(whole)))
    assert not all(map(torch.equal, weights(left), weights(whole)))


@pytest.mark.parametrize("callbacks", [True, False])
def test_a_loader_that_is_prepared_resumes_too(trained, callbacks):
    options = {"accelerator_config": {"dispatch_batches": False}, "callbacks": callbacks}
    whole = trained(**options)
    left = trained(leave_after=20, **options)
    assert left.steps + trained(resume=True, **options).steps == whole.steps


def test_without_a_callback_a_resume_in_mid_epoch_is_refused(trained):
    import headwater

    trained(leave_after=20)
    with pytest.raises(headwater.ConfigError, match=r"callbacks=\[headwater.integrations.transformers.ResumeCallback\(\)\]"):
        trained(resume=True, callbacks=False)


@pytest.mark.parametrize("options", [{}, {"ignore_data_skip": True}], ids=str)
def test_without_a_callback_a_resume_at_an_epochs_end_is_refused(trained, options):
    import headwater

    trained(leave_after=32, callbacks=False)
    with pytest.raises(headwater.ConfigError, match=r"callbacks=\[headwater.integrations.transformers.ResumeCallback\(\)\]"):
        trained(resume=True, callbacks=False, **options)


def test_without_a_callback_a_fresh_run_goes_on_to_its_other_epochs_and_begins_again(trained, loop, images, tmp_path):
    from scenarios import Plan, close

    assert trained(callbacks=False).steps == trained().steps
    module = loop("transformers")
    data = module.opened("headwater", images)
    try:
        for leave_after in (20, None):
            trainer = module.trainer(data, Plan(2, leave_after=leave_after))
            trainer.remove_callback(module.ResumeCallback)
            trainer.train()
            assert len(trainer.steps) == (leave_after or 32)
    finally:
        close(data)


def test_data_are_not_skipped_where_the_trainer_is_told_not_to(trained):
    whole = trained()
    trained(leave_after=20)
    resumed = trained(resume=True, ignore_data_skip=True)
    assert resumed.steps[:16] == whole.steps[16:32]


def test_a_trainer_with_another_loader_is_refused(trained, loop, images, tmp_path):
    import headwater
    from scenarios import Plan

    module = loop("transformers")
    trainer = module.trainer(module.opened("pytorch", images), Plan(1, checkpoint=tmp_path))
    trainer.add_callback(module.ResumeCallback)
    with pytest.raises(headwater.ConfigError, match=r"return `DataLoader\(IterableDataset\(loader\), batch_size=None\)`"):
        trainer.train()
