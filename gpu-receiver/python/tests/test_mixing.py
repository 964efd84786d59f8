"""Mixup and cutmix beside what torchvision's and timm's formulas make of the same draws."""

import headwater
import pytest
import torch
from conftest import SMALL
from headwater.mixing import mix, soft_labels

FLOATS = {"tensors": [{**SMALL["tensors"][0], "dtype": "f32"}]}
BOTH = {"mixup_alpha": 0.8, "cutmix_alpha": 1.0}


def torchvision_mix(x, lam, box):
    """`MixUp._call_kernel` and `CutMix._call_kernel` of torchvision.transforms.v2."""
    top, bottom, left, right = box
    rolled = x.roll(1, 0)
    if bottom > top:
        out = x.clone()
        out[..., top:bottom, left:right] = rolled[..., top:bottom, left:right]
        return out
    return rolled.mul(1.0 - lam).add_(x.mul(lam))


def timm_batch(x, lam, box):
    """`Mixup._mix_batch` of timm."""
    top, bottom, left, right = box
    x = x.clone()
    if lam == 1.0:
        return x
    if bottom > top:
        x[:, :, top:bottom, left:right] = x.flip(0)[:, :, top:bottom, left:right]
    else:
        flipped = x.flip(0).mul_(1.0 - lam)
        x.mul_(lam).add_(flipped)
    return x


def timm_elem(x, lams, boxes):
    """`Mixup._mix_elem` of timm."""
    original = x.clone()
    x = x.clone()
    for i, (lam, (top, bottom, left, right)) in enumerate(zip(lams, boxes)):
        j = len(x) - i - 1
        if lam != 1.0:
            if bottom > top:
                x[i][:, top:bottom, left:right] = original[j][:, top:bottom, left:right]
            else:
                x[i] = x[i] * lam + original[j] * (1 - lam)
    return x


def timm_target(target, classes, lam, smoothing):
    """`mixup_target` of timm; lam is a number or `[batch, 1]`."""
    off = smoothing / classes
    on = 1.0 - smoothing + off
    one_hot = lambda x: torch.full((x.size(0), classes), off).scatter_(1, x.long().view(-1, 1), on)
    return one_hot(target) * lam + one_hot(target.flip(0)) * (1.0 - lam)


def batches(make, count, **options):
    loader = make(recipe=FLOATS, batch_size=6, mixing={**BOTH, **options})
    for batch, _ in zip(loader, range(count)):
        images = next(t for name, t in batch.items() if t.dtype == "f32" and len(t.shape) == 4).torch()
        # `labels` of the test's photographs are small numbers.
        yield batch, images, batch.labels.torch()


def kinds(seen):
    return {"cut" if box[1] > box[0] else "mixed" for box in seen}


def test_a_batch_is_mixed_as_torchvision_mixes_it(make):
    seen = []
    for batch, images, labels in batches(make, 12, style="torchvision"):
        lam, box = float(batch.mixing_lam.torch()[0]), batch.mixing_box.torch()[0].tolist()
        mixed, (own, partners, lams) = mix(images, labels, batch)
        views = images.unflatten(0, (-1, 6))
        assert torch.equal(mixed.unflatten(0, (-1, 6)), torch.stack([torchvision_mix(v, lam, box) for v in views]))
        assert torch.equal(own, labels) and torch.equal(partners, labels.roll(1, 0)) and (lams == lam).all()
        seen.append(box)
    assert kinds(seen) == {"cut", "mixed"}


@pytest.mark.parametrize("mode", ["batch", "elem", "pair"])
def test_a_batch_is_mixed_as_timm_mixes_it(make, mode):
    seen = []
    for batch, images, labels in batches(make, 12, mode=mode, prob=0.9):
        lams, boxes = batch.mixing_lam.torch(), batch.mixing_box.torch().tolist()
        mixed, targets = mix(images, labels, batch, num_classes=1000, smoothing=0.1)
        for view, found in zip(images.unflatten(0, (-1, 6)), mixed.unflatten(0, (-1, 6))):
            if mode == "batch":
                assert torch.equal(found, timm_batch(view, float(lams[0]), boxes[0]))
            else:
                assert torch.equal(found, timm_elem(view, lams.tolist(), boxes))
        assert torch.equal(targets, timm_target(labels, 1000, lams.view(-1, 1), 0.1))
        seen += boxes
    assert kinds(seen) == {"cut", "mixed"}


def test_resumed_batches_are_mixed_alike(make):
    loader = make(recipe=FLOATS, batch_size=6, mixing=BOTH)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    expected = [(b.mixing_lam.torch().clone(), b.mixing_box.torch().clone(), b.digest) for b, _ in zip(steps, range(3))]
    again = make(recipe=FLOATS, batch_size=6, mixing=BOTH)
    again.load_state_dict(state)
    for batch, (lam, box, digest) in zip(again, expected):
        assert torch.equal(batch.mixing_lam.torch(), lam) and torch.equal(batch.mixing_box.torch(), box)
        assert batch.digest == digest
    with make(recipe=FLOATS, batch_size=6) as bare:
        assert next(iter(bare)).digest != expected[0][2]


def test_halves_are_rounded_once(make):
    batch, images, labels = next(batches(make, 1, cutmix_alpha=0.0))
    halves = images.bfloat16()
    mixed, _ = mix(halves, labels, batch)
    exact, _ = mix(halves.float(), labels, batch)
    assert mixed.dtype == torch.bfloat16 and torch.equal(mixed, exact.bfloat16())


def test_what_cannot_be_mixed_is_said(make):
    batch, images, labels = next(batches(make, 1))
    with pytest.raises(ValueError, match="normalise them first"):
        mix(images.byte(), labels, batch)
    with pytest.raises(ValueError, match="give whole tensors"):
        mix(images[:5], labels, batch)
    with pytest.raises(ValueError, match="label 7 is none of 5 classes, 0 to 4"):
        soft_labels(torch.tensor([1, 7]), torch.tensor([1, 1]), torch.tensor([0.5, 0.5]), 5)
    with pytest.raises(ValueError, match="receiver.mixing"):
        mix(images, labels, next(iter(make(recipe=FLOATS, batch_size=6))))
    for mixing, said in [
        ({"prob": 2}, r"receiver.mixing.prob is 2: must be from 0 to 1"),
        ({"alpha": 2}, r"unknown key `receiver.mixing.alpha`"),
        ({"style": "torchvision", "mode": "pair"}, r"receiver.mixing.mode is pair: must be batch or elem"),
    ]:
        with pytest.raises(headwater.ConfigError, match=said):
            headwater.Loader(datasets="a", recipe=FLOATS, mixing=mixing)
    with pytest.raises(headwater.ConfigError, match="unlike sizes"):
        iter(make(recipe="dinov2", mixing=BOTH))
