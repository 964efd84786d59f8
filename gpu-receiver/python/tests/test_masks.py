"""iBOT masks: off unless asked for, and the same for the same place of the stream."""

import gc

import headwater
import numpy
import pytest

MASKS = {"patch": 8, "sample_probability": 0.6}


def taken(batch):
    """Everything about a batch's masks as plain data."""
    arrays = [batch[name].numpy() for name in ("masks", "mask_indices", "masks_weight")]
    return [array.tolist() for array in arrays], batch.upperbound, batch.n_masked_patches


def epoch(loader):
    return {batch.step: taken(batch) for batch in loader}


def test_without_masks_there_are_none(make):
    batch = next(iter(make()))
    assert "masks" not in batch and "masks" not in batch.tensors
    assert (batch.upperbound, batch.n_masked_patches) == (0, 0)
    with pytest.raises(AttributeError, match="no tensor `masks`"):
        batch.masks


def test_masks_are_what_dinov2_collates(make):
    batch = next(iter(make(masks=MASKS, batch_size=8)))
    masks, indices, weight = (
        tensor.numpy() for tensor in (batch.masks, batch.mask_indices, batch.masks_weight)
    )
    # 2 global crops of 32 x 32 each make 16 rows of 4 x 4 patches.
    assert masks.shape == (16, 16) and masks.dtype == numpy.bool_
    assert 0 < (masks.sum(axis=1) > 0).sum() <= int(16 * 0.6)
    assert indices.dtype == numpy.int64 and (indices == masks.ravel().nonzero()[0]).all()
    assert weight.dtype == numpy.float32 and batch.n_masked_patches == len(indices) == len(weight)
    per_row = masks.sum(axis=1).clip(1)
    expected = (1 / per_row.astype("f4"))[:, None].repeat(16, axis=1)[masks]
    assert (weight == expected).all()
    assert batch.n_masked_patches <= batch.upperbound
    assert list(batch.tensors)[-3:] == ["masks", "mask_indices", "masks_weight"]
    assert "masks=bool[16, 16]" in repr(batch)


def test_masks_depend_on_the_place_alone(make, tiers):
    whole = epoch(make(masks=MASKS))
    assert len({str(masks) for masks in whole.values()}) > len(whole) // 2
    assert epoch(make(masks=MASKS, workers=tiers.workers[:1], part_samples=1)) == whole
    # The first of two ranks, at the same steps.
    half = epoch(make(masks=MASKS, rank=0, world_size=2))
    assert half == {step: whole[step] for step in half}
    other = epoch(make(masks=MASKS, rank=1, world_size=2))
    assert all(other[step] != half[step] for step in list(other)[:3])
    loader = make(masks=MASKS)
    loader.seek(0, 9)
    assert taken(next(iter(loader))) == whole[9]


def test_masks_change_no_tensor_and_are_part_of_the_digest(make):
    bare, masked = (next(iter(make(**options))) for options in ({}, {"masks": MASKS}))
    for name, tensor in bare.tensors.items():
        assert (tensor.numpy() == masked[name].numpy()).all()
    assert bare.digest != masked.digest
    assert masked.digest == next(iter(make(masks=MASKS))).digest


def test_masks_outlive_their_batch_without_its_slot(make):
    loader = make(masks=MASKS, window_batches=1, slots_max=2)
    kept = []
    for batch in loader:
        kept.append((batch.masks.numpy(), taken(batch)[0][0]))
        del batch
        gc.collect()
    assert len(kept) > 2
    for array, before in kept:
        assert array.tolist() == before and not array.flags.writeable
        assert array.__array_interface__["data"][0] % 256 == 0


def test_masks_that_do_not_fit_are_refused_by_their_key(make):
    for masks, message in [
        ({"patch": 5}, "receiver.masks.patch is 5 of 32 x 32: must divide"),
        ({"patch": 8, "tensor": "crops"}, "receiver.masks.tensor is `crops`"),
        ({"patch": 8, "ratio_max": 2}, "receiver.masks.ratio_max is 2"),
        ({"ratio_max": 0.4}, "`receiver.masks` needs a key `patch`"),
        ({"patch": 8, "ratio": 0.4}, "unknown key `receiver.masks.ratio`"),
    ]:
        with pytest.raises(headwater.ConfigError, match=message):
            make(masks=masks)


def test_masks_come_to_torch_as_booleans(make):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    batch = next(iter(make(masks=MASKS)))
    tensors = batch.torch()
    assert tensors["masks"].dtype == torch.bool
    assert tensors["mask_indices"].dtype == torch.int64
    assert torch.equal(tensors["masks"].flatten().nonzero().flatten(), tensors["mask_indices"])
