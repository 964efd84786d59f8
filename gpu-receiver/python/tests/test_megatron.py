"""Megatron's batches beside a plain copy of its definitions in NumPy. libs/megatron-order has the comparison with the package."""

import struct

import headwater
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from headwater.integrations.megatron import gpt_loader  # noqa: E402

LENGTH, SEED, EOD = 32, 1234, 3
WEIGHTS = [0.3, 0.5, 0.2]


def write(prefix, number):
    """A corpus of short documents; returns them."""
    random = np.random.default_rng(number)
    documents = [random.integers(0, 90, n).astype("<u2") for n in random.integers(0, 60, 40 + 10 * number)]
    lengths = np.array([len(tokens) for tokens in documents], "<i4")
    np.concatenate(documents).tofile(f"{prefix}.bin")
    begin = np.concatenate([[0], 2 * np.cumsum(lengths[:-1], dtype="<i8")]).astype("<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        for array in (lengths, begin, np.arange(len(lengths) + 1, dtype="<i8")):
            file.write(array.tobytes())
    return documents


def sequences(documents, samples):
    """`GPTDataset`: enough epochs, the last one shuffled by itself if little of it is needed."""
    tokens = sum(map(len, documents))
    epochs = -(-(samples * LENGTH + 1) // tokens)
    before, whole = ((epochs - 1) * tokens - 1) // LENGTH, (epochs * tokens - 1) // LENGTH
    apart = epochs > 1 and samples - before < int(0.8 * ((tokens - 1) // LENGTH))
    random = np.random.RandomState(SEED)
    order = []
    for times in (epochs - 1, 1) if apart else (epochs,):
        part = np.tile(np.arange(len(documents), dtype=np.int32), times)
        random.shuffle(part)
        order.extend(part)
    text = np.concatenate([documents[at] for at in order])
    shuffled = []
    for part in (range(before), range(before, whole)) if apart else (range(whole),):
        part = np.array(part, np.uint32)
        random.shuffle(part)
        shuffled.extend(part)
    return [text[at * LENGTH : at * LENGTH + LENGTH + 1].astype(np.int64) for at in shuffled]


def blend(corpora, wanted):
    """`BlendedDataset`: the corpus that lies furthest behind its weight."""
    targets = [int(np.ceil(wanted * weight)) for weight in WEIGHTS]
    each = [sequences(documents, int(np.ceil(target * 1.005))) for documents, target in zip(corpora, targets)]
    weights, taken, texts = np.array(WEIGHTS), np.zeros(len(WEIGHTS), int), []
    for step in range(sum(targets)):
        at = int(np.argmax(weights * max(step, 1) - taken))
        texts.append(each[at][taken[at]])
        taken[at] += 1
    return texts


@pytest.fixture(name="listed")
def fixture_listed(tmp_path):
    corpora = [write(tmp_path / f"c{number}", number) for number in range(3)]
    (tmp_path / "blend.txt").write_text("".join(f"{weight} c{at}\n" for at, weight in enumerate(WEIGHTS)))
    return str(tmp_path / "blend.txt"), blend(corpora, 400)


def opened(path, **options):
    given = {"sequence_length": LENGTH, "micro_batch_size": 4, "samples": 400, "eod": EOD, "embedded": "threads"}
    return gpt_loader(path, **{**given, **options})


def test_ranks_take_the_samples_of_megatrons_sampler(listed):
    path, texts = listed
    for rank in range(2):
        batches = opened(path, rank=rank, world_size=2)
        assert len(batches) == len(texts) // 8
        for step, batch in enumerate(batches):
            rows = np.stack(texts[step * 8 + rank * 4 : step * 8 + rank * 4 + 4])
            np.testing.assert_array_equal(batch["tokens"], rows[:, :-1])
            np.testing.assert_array_equal(batch["labels"], rows[:, 1:])
            assert batch["loss_mask"].all() and batch["loss_mask"].dtype == torch.float32
            np.testing.assert_array_equal(batch["position_ids"], np.tile(np.arange(LENGTH), (4, 1)))
        assert step == len(batches) - 1
        batches.close()


def test_options_reset_at_the_ends_of_documents(listed):
    path, texts = listed
    options = {"reset_position_ids": True, "reset_attention_mask": True, "eod_mask_loss": True, "create_attention_mask": True}
    batches = opened(path, **options)
    seen = 0
    for step, batch in zip(range(20), batches):
        for row in range(4):
            tokens = texts[step * 4 + row][:-1]
            # The document of a token, and where it begins.
            document = np.concatenate([[0], np.cumsum(tokens == EOD)[:-1]])
            begin = np.array([np.argmax(document == number) for number in document])
            seen += int(document[-1])
            np.testing.assert_array_equal(batch["position_ids"][row], np.arange(LENGTH) - begin)
            np.testing.assert_array_equal(batch["loss_mask"][row], tokens != EOD)
            hidden = np.triu(np.ones((LENGTH, LENGTH), bool), 1) | (document[:, None] != document[None])
            np.testing.assert_array_equal(batch["attention_mask"][row, 0], hidden)
            bounds = batch["cu_seqlens"][row].tolist()
            assert bounds[0] == 0 and bounds[-1] == LENGTH and sorted(bounds) == bounds
    assert seen > 10, "documents end within the sequences"
    batches.close()


def test_a_run_goes_on_with_another_number_of_ranks(listed):
    path, texts = listed
    consumed = 2 * 4 * 5
    for rank in range(3):
        if consumed % 12:
            with pytest.raises(headwater.ConfigError, match="consumed_samples=40.*multiple of 4 samples of 3 ranks"):
                opened(path, rank=rank, world_size=3, consumed_samples=consumed)
        batches = opened(path, rank=rank, world_size=3, consumed_samples=48)
        first = next(iter(batches))
        rows = np.stack(texts[48 + rank * 4 : 48 + rank * 4 + 4])
        np.testing.assert_array_equal(first["tokens"], rows[:, :-1])
        batches.close()


def test_a_state_of_two_ranks_is_loaded_by_one(listed):
    path, texts = listed
    batches = opened(path, rank=0, world_size=2)
    taken = [batch for _, batch in zip(range(5), batches)]
    state = batches.loader.state_dict()
    batches.close()
    alone = opened(path, micro_batch_size=8)
    alone.loader.load_state_dict(state)
    rest = np.concatenate([batch["tokens"] for batch in alone])
    np.testing.assert_array_equal(rest, np.stack(texts[len(taken) * 8 :])[: len(rest), :-1])
    assert len(texts) - len(taken) * 8 - len(rest) < 8
    alone.close()


def test_it_is_an_iterator_as_megatrons_external_dataloader(listed):
    path, texts = listed
    batches = opened(path, consumed_samples=8)
    for step in range(2, 5):
        rows = np.stack(texts[step * 4 : step * 4 + 4])
        np.testing.assert_array_equal(next(batches)["tokens"], rows[:, :-1])
    rest = sum(1 for _ in iter(lambda: next(batches, None), None))
    assert rest == len(batches) - 5
    batches.close()


def test_arguments_that_do_not_fit_are_refused_by_name(listed, tmp_path):
    path, texts = listed
    for consumed in (-4, 6):
        with pytest.raises(headwater.ConfigError, match=f"consumed_samples={consumed}.*multiple of 4 samples of 1 ranks"):
            opened("/no/such/file", consumed_samples=consumed)
    end = len(texts) // 4 * 4
    with pytest.raises(headwater.ConfigError, match=f"consumed_samples={end}.*ends after {end} samples"):
        opened(path, consumed_samples=end)
    for key, value in (("samples", 400), ("seed", 1234), ("split", "9,1"), ("part", "valid")):
        with pytest.raises(headwater.ConfigError, match=f"{key}={value!r}.*key of `megatron`"):
            opened("name", **{"samples": None, key: value}, storage=["127.0.0.1:1"], workers=["127.0.0.1:2"])
    batches = opened(path, stored="i32", on_bad_sample="fail")
    with pytest.raises(headwater.HeadwaterError, match="`stored` the type"):
        next(batches)
    batches.close()


class Tokenizer:
    """As Megatron's: what it lacks, it says by an error."""

    vocab_size, eod = 65_499, EOD

    def __init__(self, pad=None):
        self._pad = pad

    @property
    def pad(self):
        if self._pad is None:
            raise NotImplementedError("Attribute pad is not implemented for this tokenizer")
        return self._pad


@pytest.mark.parametrize("pad", [None, -1, EOD, 5])
def test_tokens_follow_from_the_tokenizer_and_padding_that_ends_documents_is_none(listed, pad, recwarn):
    path, texts = listed
    batches = opened(path, eod=None, tokenizer=Tokenizer(pad), eod_mask_loss=True)
    said = [str(warning.message) for warning in recwarn if "token 3 is for padding" in str(warning.message)]
    assert len(said) == (pad == EOD)
    field = batches.loader.recipe["fields"][0]
    assert (field["eod"], field.get("pad"), field["stored"]) == (EOD, 5 if pad == 5 else None, "u16")
    for step, batch in enumerate(batches):
        rows = np.stack(texts[step * 4 : step * 4 + 4])
        labels, inputs = rows[:, 1:], rows[:, :-1]
        padded = labels == 5 if pad == 5 else np.zeros_like(labels, bool)
        np.testing.assert_array_equal(batch["labels"], np.where(padded, 0, labels))
        np.testing.assert_array_equal(batch["loss_mask"], ~padded & (inputs != EOD))
    batches.close()


def test_a_large_vocabulary_has_tokens_of_32_bits(listed):
    large = Tokenizer()
    for size in (65_500, None):
        large.vocab_size = size
        batches = opened(listed[0], eod=None, tokenizer=large)
        assert batches.loader.recipe["fields"][0]["stored"] == "i32"
        batches.close()


def test_an_unshuffled_order_needs_no_key_and_shuffle_block_shuffles(listed):
    path, texts = listed
    shuffled = opened(path, shuffle_block=3)
    tokens = np.concatenate([batch["tokens"] for batch in shuffled])
    shuffled.close()
    assert not np.array_equal(tokens, np.stack(texts)[: len(tokens), :-1])


def test_a_list_without_a_corpus_is_refused_by_name(tmp_path):
    (tmp_path / "blend.txt").write_text("1.0 missing\n")
    with pytest.raises(headwater.HeadwaterError, match=r"missing\.bin"):
        opened(str(tmp_path / "blend.txt"))
