"""Lightning: its Trainer is given the loader, the dataset of it, or a DataLoader of that."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
lightning = pytest.importorskip("lightning", reason="Lightning is not installed")

from headwater.torch import IterableDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4


class Model(lightning.LightningModule):
    """One weight; keeps what it was given."""

    def __init__(self, loader, lost_after=None, checkpoint=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.loader, self.lost_after, self.checkpoint = loader, lost_after, checkpoint
        self.seen, self.validated = [], []

    def training_step(self, batch, _index):
        self.seen.append((batch.epoch, [sample.key for sample in batch.samples]))
        return self.weight * batch.global_crops.mean()

    def validation_step(self, batch, _index):
        self.validated.append([sample.key for sample in batch.samples])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_batch_end(self, *_):
        if len(self.seen) == self.lost_after:
            self.trainer.save_checkpoint(self.checkpoint)
            raise Lost


class Lost(Exception):
    """The job is lost."""


def fit(model, validation=None, resume=None, **options):
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing="callbacks" in options,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )
    trainer.fit(model, model.loader, validation, ckpt_path=resume)
    return trainer


def keys(loader):
    return [(batch.epoch, batch.keys) for batch in loader]


def stateful(loader):
    dataloader = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    return dataloader.StatefulDataLoader(IterableDataset(loader), batch_size=None, num_workers=0)


def plain(loader):
    return DataLoader(IterableDataset(loader), batch_size=None, num_workers=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", [lambda loader: loader, IterableDataset, plain, stateful])
def test_fit_gets_every_batch_of_every_epoch_once_and_in_order(make, given):
    loader = make()
    expected = keys(loader) + keys(loader)
    model = Model(given(make()))
    fit(model, max_epochs=2)
    assert model.seen == expected and len(expected) == 2 * STEPS


@pytest.mark.filterwarnings("ignore")
def test_a_validation_loader_is_gone_through_after_each_epoch(make):
    model = Model(make())
    validation = make(datasets=["others"])
    fit(model, validation, max_epochs=2)
    assert [epoch for epoch, _ in model.seen] == [0] * STEPS + [1] * STEPS
    half = len(model.validated) // 2
    assert half == len(validation) > 0
    for validated in (model.validated[:half], model.validated[half:]):
        once = sum(validated, [])
        assert len(once) == len(set(once)) == 4 * len(validation)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", [lambda loader: loader, IterableDataset, stateful])
def test_a_fit_that_is_lost_in_mid_epoch_goes_on_with_the_next_batch(make, tmp_path, given):
    loader = make()
    expected = keys(loader) + keys(loader)
    checkpoint = tmp_path / "lost.ckpt"
    lost = Model(given(make()), lost_after=5, checkpoint=checkpoint)
    with pytest.raises(Lost):
        fit(lost, max_epochs=2)
    resumed = Model(given(make()))
    fit(resumed, max_epochs=2, resume=checkpoint)
    assert lost.seen == expected[:5]
    assert resumed.seen == expected[5:]


# PyTorch's loaders draw anew for each iteration.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", [lambda loader: loader, IterableDataset, plain])
def test_epochs_that_are_limited_are_not_the_same_batches_again(make, given):
    model = Model(given(make()))
    fit(model, max_epochs=4, limit_train_batches=3)
    loader = make()
    whole = [keys(loader) for _ in range(4)]
    assert model.seen == sum((epoch[:3] for epoch in whole), [])


# Lightning asks for an iterator, loads its state and sets the epoch, and then takes the first batch.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("given", "name"),
    [
        (lambda loader: loader, "epoch=1-step=32"),
        (lambda loader: loader, "epoch=0-step=6"),
        (IterableDataset, "epoch=1-step=32"),
        (IterableDataset, "epoch=0-step=6"),
        # Written in the validation after an epoch's last batch: Lightning sets that epoch once more, and takes nothing.
        (lambda loader: loader, "epoch=0-step=16"),
        # At an epoch's end Lightning restores no StatefulDataLoader, and sets no epoch in it.
        (stateful, "epoch=0-step=6"),
    ],
)
def test_a_fit_goes_on_from_the_checkpoints_that_lightning_writes_by_itself(make, tmp_path, given, name):
    loader = make()
    expected = [batch for _ in range(3) for batch in keys(loader)]
    callback = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, filename="{epoch}-{step}", save_top_k=-1)
    options = {"epoch=0-step=6": {"val_check_interval": 6}, "epoch=0-step=16": {"val_check_interval": 8}}.get(name, {})
    fit(Model(given(make())), make(datasets=["others"]), max_epochs=2, callbacks=[callback], **options)
    resumed = Model(given(make()))
    fit(resumed, make(datasets=["others"]), resume=tmp_path / f"{name}.ckpt", max_epochs=3, **options)
    assert resumed.seen == expected[int(name.split("=")[-1]) :]


class Scheduled(Model):
    """A rate that falls over all steps of the run, by the number that Lightning estimates."""

    def steps(self):
        return self.trainer.estimated_stepping_batches

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=self.steps())
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class ByLength(Scheduled):
    """The first remedy of docs/frameworks.md."""

    def steps(self):
        return len(self.loader) * self.trainer.max_epochs


class ByHand(Scheduled):
    """The second remedy of docs/frameworks.md."""

    def on_load_checkpoint(self, checkpoint):
        states = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"]
        self.loader.load_state_dict(states[0])


def lost_and_resumed(model, make, given, tmp_path):
    """What a run of two epochs got until it was lost after 5 batches, and what the resumed one got."""
    checkpoint = tmp_path / "lost.ckpt"
    lost = model(given(make()), lost_after=5, checkpoint=checkpoint)
    with pytest.raises(Lost):
        fit(lost, max_epochs=2)
    resumed = model(given(make()))
    fit(resumed, max_epochs=2, resume=checkpoint)
    return lost.seen, resumed.seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [ByLength, ByHand])
def test_a_fit_whose_schedule_knows_its_steps_goes_on_with_the_next_batch(make, tmp_path, model):
    loader = make()
    expected = keys(loader) + keys(loader)
    assert lost_and_resumed(model, make, lambda loader: loader, tmp_path) == (expected[:5], expected[5:])


# docs/frameworks.md says so. If Lightning has changed, change the page.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", [lambda loader: loader, stateful])
def test_lightning_loads_no_state_of_any_loader_where_it_estimates_the_steps(make, tmp_path, given):
    loader = make()
    first, second = keys(loader), keys(loader)
    _, resumed = lost_and_resumed(Scheduled, make, given, tmp_path)
    assert resumed == first[: STEPS - 5] + second
