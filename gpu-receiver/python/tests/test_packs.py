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
        **{"batch_size": BATCH // world_size, **options},
        rank=rank,
        world_size=world_size,
        epochs=1,
        embedded="threads",
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
    rest = taken(rest)
    assert len(rest) == len(whole) - 3 > 20
    for batch, expected in zip(rest, whole[3:]):
        assert batch.keys() == expected.keys()
        assert all(torch.equal(batch[name], expected[name]) for name in batch)


def test_ranks_have_even_loads(corpora):
    path, _ = corpora
    ratios = []
    for batch in taken(opened(path)):
        squares = [sum(len(tokens) ** 2 for tokens, _, _ in sequences({k: v[i : i + 1] for k, v in batch.items()})) for i in range(BATCH)]
        loads = np.reshape(squares, (4, 2)).sum(1)
        ratios.append(loads.max() / loads.mean())
    assert np.median(ratios) < 1.15


def test_nested_tensors_are_the_batchs_own_memory_and_go_through_a_model(corpora):
    path, _ = corpora
    with opened(path) as loader:
        batch = next(iter(loader)).torch()
        expected = sequences(batch)
        packs = packing.nested(batch, "tokens")
        for nested, of in zip(packs, ("", "_labels", "_position_ids")):
            values = batch[f"tokens{of}"]
            assert nested.values().data_ptr() == values.data_ptr() and nested.is_contiguous()
            # What is behind the last sequence of a row is one, too.
            wanted = []
            for row in range(BATCH):
                bounds = batch["tokens_cu_seqlens"][row, : int(batch["tokens_sequences"][row]) + 1].tolist()
                bounds += [BUDGET] * (bounds[-1] < BUDGET)
                wanted += [values[row, begin:end] for begin, end in zip(bounds, bounds[1:])]
            parts = nested.unbind()
            assert len(parts) == len(wanted) and all(map(torch.equal, parts, wanted))
        torch.manual_seed(1)
        token, place, head = torch.nn.Embedding(100, 8), torch.nn.Embedding(BUDGET, 8), torch.nn.Linear(8, 100)
        found = head(token(packs.tokens) + place(packs.position_ids))
        loss = torch.nn.functional.cross_entropy(found.values(), packs.labels.values())
        loss.backward()
        rows = torch.cat([torch.from_numpy(tokens.astype(np.int64)) for tokens, _, _ in expected])
        labels = torch.cat([torch.from_numpy(labels) for _, labels, _ in expected])
        positions = torch.cat([torch.from_numpy(positions) for _, _, positions in expected])
        plain = torch.nn.functional.cross_entropy(head(token(rows) + place(positions)), labels)
        torch.testing.assert_close(loss, plain)
        assert token.weight.grad.abs().sum() > 0


def test_attention_within_bounds_is_that_of_each_sequence(corpora):
    path, _ = corpora
    with opened(path) as loader:
        batch = next(iter(loader)).torch()
        bounds, longest = packing.cu_seqlens(batch, "tokens")
        lengths = bounds.diff()
        assert bounds.dtype == torch.int32 and (lengths > 0).all() and longest == lengths.max()
        torch.manual_seed(2)
        values = torch.nn.Embedding(100, 8)(batch["tokens"].reshape(-1)).detach()
        # Attention as a kernel with variable lengths has it: within each pair of bounds, and no token looks ahead.
        attended = torch.empty_like(values)
        for begin, end in zip(bounds.tolist(), bounds[1:].tolist()):
            part = values[begin:end]
            scores = (part @ part.T).masked_fill(torch.ones(end - begin, end - begin).triu(1).bool(), -torch.inf)
            attended[begin:end] = scores.softmax(1) @ part
        rows = attended.reshape(BATCH, BUDGET, -1)
        for row in range(BATCH):
            inner = values.reshape(BATCH, BUDGET, -1)[row]
            position, count = 0, int(batch["tokens_sequences"][row])
            for end in batch["tokens_cu_seqlens"][row, 1 : count + 1].tolist():
                part = inner[position:end]
                scores = (part @ part.T).masked_fill(torch.ones(len(part), len(part)).triu(1).bool(), -torch.inf)
                torch.testing.assert_close(rows[row, position:end], scores.softmax(1) @ part)
                position = end


def test_a_pack_that_does_not_fit_the_recipe_says_so(corpora):
    path, _ = corpora
    field = {"name": "tokens", "field": "pack", "kind": "pack", "budget": BUDGET - 1, "sequences_max": 32}
    loader = headwater.Loader(
        path,
        datasets={"name": "data", "pack": {"budget": BUDGET}},
        recipe={"preset": "custom", "fields": [field]},
        image_field="pack",
        label_field="",
        batch_size=4,
        embedded="threads",
    )
    # It would be every second pack: none is replaced by its neighbour.
    with loader, pytest.raises(headwater.HeadwaterError, match="raise the field's `budget`, 95"):
        for _ in loader:
            pass


def test_packs_of_another_format_are_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(headwater.HeadwaterError, match="`pack` is for tokens, and its format is npy"):
        headwater.Loader(str(tmp_path / "a.npy"), datasets={"name": "data", "format": "npy", "pack": {"budget": 8}}, recipe="raw", batch_size=1)


def test_several_shards_have_no_order_together(corpora, tmp_path):
    with pytest.raises(headwater.HeadwaterError, match="has 3: name all corpora in one list"):
        opened(str(tmp_path / "c{0..2}.bin"))


def test_packs_that_are_dealt_for_other_steps_are_told_of(corpora):
    path, _ = corpora
    with pytest.warns(UserWarning, match=r"steps of 8 \(`pack.batch`\), and a step of this job has 16: .* 2 ranks"):
        opened(path, rank=1, world_size=2, batch_size=8).close()
