"""Iterations of every adapter: after an error that may pass they go on, and no batch is lost where its conversion raised."""

import types

import headwater
import pytest
from conftest import patiently

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from headwater import sampling  # noqa: E402
from headwater.integrations import dinov3, ijepa, lightly_train, mae, open_clip, timm, torchtitan  # noqa: E402
from headwater.integrations._dino import DINOBatches  # noqa: E402
from headwater.torch import IterableDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4
IMAGES = {"preset": "imagenet-eval", "image_size": 32, "resize_size": 32}
CAPTIONED = {**IMAGES, "fields": [{"name": "prompt", "kind": "text", "field": "json", "bytes_max": 4096}]}
BLOCKS = {"kind": "ijepa", "patch": 4, "tensor": "images", "num_pred_masks": 2, "min_keep": 2}
MASKS = {"patch": 8, "sample_probability": 0.6}


class Tuples(sampling.LoaderWrapper):
    """`Loader.tuples` as the other ones are called."""

    def __iter__(self):
        return self.loader.tuples()


def of_open_clip(make, **options):
    captions = types.SimpleNamespace(ids=lambda batch, seed: batch["labels"])
    return open_clip._Batches(make(recipe=IMAGES, **options), captions, 1)


def of_lightly_train(make, **options):
    batches = lightly_train._Batches({}, 64)
    batches._loader, batches._tensors = make(recipe=IMAGES, **options), {"images": 1}
    return batches


def of_torchtitan(make, **options):
    """torchtitan is not needed for what happens to a batch."""
    batches = torchtitan.FluxDataLoader.__new__(torchtitan.FluxDataLoader)
    sampling.LoaderWrapper.__init__(batches, make(recipe=CAPTIONED, **options))
    batches._config = types.SimpleNamespace(infinite=True, generate_timesteps=False, prompt_dropout_prob=0)
    batches._tokenizer = types.SimpleNamespace(encode=lambda prompts: {"clip": torch.tensor([[len(one)] for one in prompts])})
    batches._empty = {"clip": torch.zeros(1)}
    return batches


def of_mae(make, **options):
    batches = mae.DataLoader.__new__(mae.DataLoader)
    sampling.LoaderWrapper.__init__(batches, make(recipe=IMAGES, **options))
    return batches


def of_dinov3_combined(make, **options):
    one = DINOBatches(make(masks=MASKS, **options), 0, "gram_crops", is_infinite=True)
    return dinov3.CombinedDataLoader([(one, 1.0)], 4, combining_mode=0)


#: How each adapter hands out the batches of a loader, and what of a batch is compared.
ADAPTERS = {
    "torch": (lambda make, **options: IterableDataset(make(**options)), lambda batch: batch.global_crops),
    "DataLoader": (
        lambda make, **options: DataLoader(IterableDataset(make(**options)), batch_size=None),
        lambda batch: batch.global_crops,
    ),
    "tuples": (lambda make, **options: Tuples(make(recipe=IMAGES, **options)), lambda batch: batch[0]),
    "timm": (lambda make, **options: timm.TimmLoader(make(recipe=IMAGES, **options), "cpu", True, None), lambda batch: batch[0]),
    "mae": (of_mae, lambda batch: batch[0]),
    "ijepa": (lambda make, **options: ijepa.IJEPALoader(make(recipe=IMAGES, **options), has_masks=False), lambda batch: batch[0]),
    "ijepa with masks": (
        lambda make, **options: ijepa.IJEPALoader(make(recipe=IMAGES, patches=BLOCKS, **options), has_masks=True),
        lambda batch: batch[0][0],
    ),
    "open_clip": (of_open_clip, lambda batch: batch[0]),
    "lightly_train": (of_lightly_train, lambda batch: batch["views"][0]),
    "torchtitan": (of_torchtitan, lambda batch: batch[1]),
    "dinov2": (
        lambda make, **options: DINOBatches(make(masks=MASKS, **options), 0, "gram_crops", is_infinite=False),
        lambda batch: batch["collated_global_crops"],
    ),
    "dinov2 without end": (
        lambda make, **options: DINOBatches(make(masks=MASKS, **options), 0, "gram_crops", is_infinite=True),
        lambda batch: batch["collated_global_crops"],
    ),
    "dinov3 combined": (of_dinov3_combined, lambda batch: batch["collated_global_crops"]),
}


@pytest.fixture(params=ADAPTERS)
def adapter(request, make):
    """Opens an adapter; also its loader, and what is compared of a batch."""
    open_one, compared = ADAPTERS[request.param]

    def adapter(**options):
        batches = open_one(make, **options)
        loader = batches.dataset.loader if isinstance(batches, DataLoader) else batches.loader
        return batches, getattr(loader, "loaders", (loader,))[0], lambda batch: torch.as_tensor(compared(batch)).clone()

    return adapter


def epoch(batches, compared):
    """The batches of an epoch of one that may have no end."""
    return [compared(batch) for _, batch in zip(range(STEPS), batches)]


def fails_once(monkeypatch):
    """Makes the next conversion of a batch raise."""
    original = headwater.TorchBatch.__init__
    left = [RuntimeError("out of memory")]

    def failing(self, *given, **named):
        if left:
            raise left.pop()
        original(self, *given, **named)

    monkeypatch.setattr(headwater.TorchBatch, "__init__", failing)


def is_same(some, others):
    return len(some) == len(others) and all(torch.equal(one, other) for one, other in zip(some, others))


def test_an_iteration_goes_on_after_an_error_that_passed(adapter, tiers):
    batches, _, compared = adapter()
    expected = epoch(batches, compared)
    # Nobody listens there.
    batches, loader, compared = adapter(workers=["127.0.0.1:1"], worker_wait_ms=300)
    iteration = iter(batches)
    with pytest.raises(headwater.WorkerError):
        next(iteration)
    loader.set_workers(tiers.workers)
    assert is_same(epoch(patiently(iteration), compared), expected)


def test_a_batch_whose_conversion_raised_comes_again(adapter, monkeypatch):
    batches, _, compared = adapter()
    expected = epoch(batches, compared)
    batches, _, compared = adapter()
    iteration, taken = iter(batches), []
    for _ in range(5):
        taken.append(compared(next(iteration)))
    with monkeypatch.context() as patch:
        fails_once(patch)
        with pytest.raises(RuntimeError, match="out of memory"):
            next(iteration)
    taken += [compared(batch) for _, batch in zip(range(STEPS - 5), iteration)]
    assert is_same(taken, expected)


def test_a_closed_iteration_has_no_more_batches_and_keeps_none(adapter, monkeypatch):
    batches, _, _ = adapter()
    if isinstance(batches, DataLoader):
        pytest.skip("the iterator is PyTorch's")
    iteration = iter(batches)
    next(iteration)
    with monkeypatch.context() as patch:
        fails_once(patch)
        with pytest.raises(RuntimeError, match="out of memory"):
            next(iteration)
    iteration.close()
    assert list(iteration) == []
    # Another one has its turn.
    next(iter(batches))
