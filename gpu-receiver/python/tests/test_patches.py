"""I-JEPA's blocks and MAE's patches of a batch."""

import headwater
import pytest
import torch
from conftest import SMALL

FLOATS = {"tensors": [{**SMALL["tensors"][0], "dtype": "f32"}]}
SIDE = FLOATS["tensors"][0]["height"]
VIEWS = len(FLOATS["tensors"][0]["views"])
PATCH = SIDE // 8
BLOCKS = {"kind": "ijepa", "patch": PATCH, "tensor": FLOATS["tensors"][0]["name"], "min_keep": 2}
RANDOM = {"kind": "random", "patch": PATCH, "tensor": FLOATS["tensors"][0]["name"]}


def test_context_and_targets_lie_apart(make):
    rows = 4 * VIEWS
    for batch, _ in zip(make(recipe=FLOATS, batch_size=4, patches=BLOCKS), range(5)):
        context, targets = batch.masks_enc.torch(), batch.masks_pred.torch()
        assert context.dtype == targets.dtype == torch.int64
        assert context.shape[:2] == (1, rows) and targets.shape[:2] == (4, rows)
        assert 0 <= int(context.min()) and int(context.max()) < 64
        for row in range(rows):
            shown = set(context[0, row].tolist())
            assert len(shown) == context.shape[2]
            assert not shown & {at for target in targets[:, row] for at in target.tolist()}
        assert set(dict(batch.items())) >= {"masks_enc", "masks_pred"}


def test_kept_patches_are_put_back_in_their_places(make):
    batch = next(iter(make(recipe=FLOATS, batch_size=4, patches=RANDOM)))
    keep, restore = batch.patches_keep.torch(), batch.patches_restore.torch()
    assert keep.shape == (4 * VIEWS, 16) and restore.shape == (4 * VIEWS, 64)
    # As MAE's decoder does: what was kept, then mask tokens, in the order of the grid.
    patches = torch.arange(64.0).expand(len(keep), 64)
    kept = torch.gather(patches, 1, keep)
    whole = torch.gather(torch.cat([kept, torch.full((len(keep), 48), -1.0)], 1), 1, restore)
    for row, places in zip(whole, keep):
        assert row[places].tolist() == places.tolist() and int((row < 0).sum()) == 48


def test_resumed_batches_have_the_same_patches(make):
    loader = make(recipe=FLOATS, batch_size=4, patches=BLOCKS)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    expected = [(b.masks_enc.torch().clone(), b.digest) for b, _ in zip(steps, range(3))]
    again = make(recipe=FLOATS, batch_size=4, patches=BLOCKS)
    again.load_state_dict(state)
    for batch, (context, digest) in zip(again, expected):
        assert torch.equal(batch.masks_enc.torch(), context) and batch.digest == digest


def test_what_does_not_fit_is_said(make):
    for patches, said in [
        ({**BLOCKS, "patch": 0}, "receiver.patches.patch is 0: must be 1 or more pixels"),
        ({**BLOCKS, "kind": "ibot"}, "`receiver.patches.kind` is `ibot`: must be one of `ijepa`, `random`"),
        ({**BLOCKS, "blocks": 3}, "unknown key `receiver.patches.blocks`"),
    ]:
        with pytest.raises(headwater.ConfigError, match=said):
            headwater.Loader(datasets="a", recipe=FLOATS, patches=patches)
    with pytest.raises(headwater.ConfigError, match="receiver.patches.tensor is `views`: the recipe has no tensor"):
        iter(make(recipe=FLOATS, patches={**BLOCKS, "tensor": "views"}))
