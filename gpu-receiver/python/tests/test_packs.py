"""Packs of sequences: each once an epoch, the same for any number of ranks, in the shapes that attention takes."""

import headwater
import numpy as np
import pytest
from test_megatron import write

torch = pytest.importorskip("torch")
from headwater import packing  # noqa: E402

BUDGET, BATCH = 96, 8


@pytest.fixture(name="corpora")
def fixture_corpora(tmp_path):
    documents = [document for number in range(3) for document in write(tmp_path / f"c{number}", number)]
    (tmp_path / "list.txt").write_text("c0\nc1\nc2\n")
    return str(tmp_path / "list.txt"), [document for document in documents if len(document)]


def opened(path, rank=0, world_size=1, **options):
    pack = {"budget": BUDGET, "window": 40, "epochs": 6, "batch": BATCH, "ranks": 4}
    field = {"name": "tokens", "field": "pack", "kind": "pack", "budget": BUDGET, "sequences_max": 32}
    return headwater.Loader(
        path,
        datasets={"name": "data", "pack": pack},
        recipe={"preset": "custom", "fields": [field]},
        image_field="pack",
        label_field="",
        batch_size=BATCH // world_size,
        rank=rank,
        world_size=world_size,
        epochs=1,
        embedded="threads",
        **options,
    )


def sequences(batch):
    """Each with its labels and positions."""
    found = []
    for row in range(batch["tokens"].shape[0]):
        count, bounds = int(batch["tokens_sequences"][row]), batch["tokens_cu_seqlens"][row].tolist()
        assert bounds[count:] == [bounds[count]] * (len(bounds) - count)
        for begin, end in zip(bounds, bounds[1 : count + 1]):
            names = ("tokens", "tokens_labels", "tokens_position_ids")
            found.append([batch[name][row, begin:end].numpy() for name in names])
        assert (batch["tokens"][row, bounds[-1] :] == 0).all()
        assert (batch["tokens_labels"][row, bounds[-1] :] == -100).all()
    return found


def taken(loader):
    with loader:
        return [{name: tensor.clone() for name, tensor in batch.torch().items()} for batch in loader]


def test_every_sequence_comes_once_an_epoch_with_its_labels(corpora):
    path, documents = corpora
    batches = taken(opened(path))
    seen = [sequence for batch in batches for sequence in sequences(batch)]
    for tokens, labels, positions in seen:
        np.testing.assert_array_equal(labels, [*tokens[1:], -100])
        np.testing.assert_array_equal(positions, np.arange(len(tokens)))
    # What fills no batch is left out at the end of the last epoch.
    whole = sorted(tuple(document) for document in documents)
    found = [tuple(int(token) for token in tokens) for tokens, _, _ in seen]
    counts = {document: found.count(document) / whole.count(document) for document in set(whole)}
    assert set(counts.values()) <= {5.0, 6.0} and set(found) == set(whole)
    padding = 1 - sum(map(len, found)) / (len(batches) * BATCH * BUDGET)
    assert padding < 0.05


def test_global_batches_are_the_same_for_any_number_of_ranks(corpora):
    path, _ = corpora
    whole = taken(opened(path))
    for world_size in (2, 4):
        ranks = [taken(opened(path, rank, world_size)) for rank in range(world_size)]
        for batch, *of_ranks in zip(whole, *ranks):
            for name, tensor in batch.items():
                assert torch.equal(tensor, torch.cat([one[name] for one in of_ranks]))
        assert len(whole) == len(ranks[0])


def test_a_run_resumes_within_a_window(corpora):
    path, _ = corpora
    whole = taken(opened(path))
    with opened(path, 0, 2) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        state = loader.state_dict()
    rest = opened(path)
    rest.load_state_dict(state)
    for batch, expected in zip(taken(rest), whole[3:]):
        assert torch.equal(batch["tokens"], expected["tokens"])


def test_ranks_have_even_loads(corpora):
    path, _ = corpora
    ratios = []
    for batch in taken(opened(path)):
        squares = [sum(len(tokens) ** 2 for tokens, _, _ in sequences({k: v[i : i + 1] for k, v in batch.items()})) for i in range(BATCH)]
        loads = np.reshape(squares, (4, 2)).sum(1)
        ratios.append(loads.max() / loads.mean())
    assert np.median(ratios) < 1.15


def test_sequences_as_a_nested_tensor_are_the_batchs_own_memory(corpora):
    path, _ = corpora
    with opened(path) as loader:
        batch = next(iter(loader)).torch()
        expected = sequences(batch)
        for at, of in enumerate(("", "_labels", "_position_ids")):
            nested = packing.nested(batch, "tokens", of)
            assert nested.values().data_ptr() == batch[f"tokens{of}"].data_ptr()
            parts = nested.unbind()
            assert len(parts) == len(expected)
            for part, sequence in zip(parts, expected):
                np.testing.assert_array_equal(part, sequence[at])


def test_attention_within_bounds_is_that_of_each_sequence(corpora):
    path, _ = corpora
    with opened(path) as loader:
        batch = next(iter(loader)).torch()
        bounds, longest = packing.cu_seqlens(batch, "tokens")
        assert bounds.dtype == torch.int32 and bounds[0] == 0 and bounds[-1] == BATCH * BUDGET
        lengths = bounds.diff()
        assert (lengths > 0).all() and longest == lengths.max()
        flat, begins = batch["tokens"].reshape(-1), set(bounds.tolist())
        places = 0
        for row in range(BATCH):
            count = int(batch["tokens_sequences"][row])
            row_bounds = batch["tokens_cu_seqlens"][row, : count + 1] + row * BUDGET
            assert set(row_bounds.tolist()) <= begins
            places += count + int(row_bounds[-1] < (row + 1) * BUDGET)
        assert places == len(lengths) and flat.shape == (BATCH * BUDGET,)


def test_a_pack_that_does_not_fit_the_recipe_says_so(corpora):
    path, _ = corpora
    field = {"name": "tokens", "field": "pack", "kind": "pack", "budget": BUDGET - 1, "sequences_max": 32}
    with opened(path, on_bad_sample="fail") as loader:
        assert loader.batch_size == BATCH
    loader = headwater.Loader(
        path,
        datasets={"name": "data", "pack": {"budget": BUDGET}},
        recipe={"preset": "custom", "fields": [field]},
        image_field="pack",
        label_field="",
        batch_size=4,
        on_bad_sample="fail",
        embedded="threads",
    )
    with loader, pytest.raises(headwater.HeadwaterError, match="raise `budget`, 95"):
        for _ in loader:
            pass


def test_several_shards_have_no_order_together(corpora, tmp_path):
    with pytest.raises(headwater.HeadwaterError, match="has 3: name all corpora in one list"):
        opened(str(tmp_path / "c{0..2}.bin"))
