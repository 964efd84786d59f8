"""Writes `certificate.json`: what megatron-core computes for corpora that `certificate.rs` makes, too.

    pip install --no-deps megatron-core==0.16.1 && pip install numpy torch packaging
    python libs/megatron-order/tests/certify.py

Indices and tokens are hashed as 64-bit little-endian integers.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import struct
import tempfile

import numpy as np
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.utils import normalize

HERE = pathlib.Path(__file__).parent
STEPS = 1_000_000
EOD = 7


class Tokenizer:
    vocab_size = 30_000
    eod = EOD
    unique_identifiers = {"class": "Tokenizer"}


def sha256(values):
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<i8").tobytes()).hexdigest()


def weights(kind, corpora):
    """Formulas that need no rounding but that of one division."""
    number = range(corpora)
    return {
        "equal": lambda: [1.0 for _ in number],
        "zipf": lambda: [1.0 / (at + 1) for at in number],
        "mixed": lambda: [float(1 + at * 7919 % 1009) for at in number],
        "uniform": lambda: [(1 + at * 2654435761 % 4294967296) / 4294967296 for at in number],
    }[kind]()


def blended(kind, corpora):
    each = normalize(weights(kind, corpora))
    index, sample = np.zeros(STEPS, np.int16), np.zeros(STEPS, np.int64)
    helpers.build_blending_indices(index, sample, each, corpora, STEPS, False)
    return {"kind": kind, "corpora": corpora, "index": sha256(index), "sample": sha256(sample)}


def exhausted(corpora):
    sizes = [1 + at * 7919 % 211 for at in range(corpora)]
    total = sum(sizes)
    index, sample = np.zeros(total, np.int16), np.zeros(total, np.int64)
    helpers.build_exhaustive_blending_indices(index, sample, sizes, corpora)
    return {"corpora": corpora, "index": sha256(index), "sample": sha256(sample)}


def lengths(corpus, documents):
    return [(at * 7919 + corpus * 104_729) % 61 for at in range(documents)]


def tokens(corpus, count):
    return (np.arange(count, dtype=np.int64) * 31 + corpus * 1009) % 97


def write(prefix, corpus, documents):
    """An indexed dataset with one sequence a document."""
    each = np.array(lengths(corpus, documents), dtype="<i4")
    tokens(corpus, each.sum()).astype("<u2").tofile(f"{prefix}.bin")
    begin = np.concatenate([[0], np.cumsum(each[:-1], dtype=np.int64) * 2]).astype("<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        for array in (each, begin, np.arange(documents + 1, dtype="<i8")):
            file.write(array.tobytes())


def built(name, corpora, *, length=16, weights=None, samples=None, split="1", part=0, **options):
    """What the builder makes of corpora, given by their numbers of documents."""
    with tempfile.TemporaryDirectory() as folder:
        prefixes = [os.path.join(folder, f"c{at}") for at in range(len(corpora))]
        for at, documents in enumerate(corpora):
            write(prefixes[at], at, documents)
        config = GPTDatasetConfig(
            random_seed=1234,
            sequence_length=length,
            blend=(prefixes, weights),
            split=split,
            tokenizer=Tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
            **options,
        )
        sizes = [samples if at == part else (None if weights is None else 1) for at in range(3)]
        made = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()[part]
        each = getattr(made, "datasets", [made])
        case = {
            "name": name,
            "corpora": corpora,
            "length": length,
            "weights": weights,
            "wanted": samples,
            "split": split,
            "part": part,
            "extra_token": options.get("add_extra_token_to_sequence", True),
            "samples": len(made),
            "document_index": [sha256(one.document_index - one.indices[0]) for one in each],
            "sample_index": [sha256(one.sample_index) for one in each],
            "shuffle_index": [sha256(one.shuffle_index) for one in each],
            "separate": [int(one.sample_index.shape[0] - 1) for one in each],
        }
        if hasattr(made, "datasets"):
            case["index"] = sha256(made.dataset_index)
            case["sample"] = sha256(made.dataset_sample_index)
        text = []
        for at in range(len(made)):
            picked, number = made, at
            if hasattr(made, "datasets"):
                picked = made.datasets[made.dataset_index[at]]
                number = made.dataset_sample_index[at]
            text.append(picked._query_document_sample_shuffle_indices(int(number))[0])
        return {**case, "text": sha256(np.stack(text))}


def masked(name, pad=None, **options):
    """The tensors of all samples of one corpus, with a tokenizer that has a token for padding."""
    tokenizer = Tokenizer()
    if pad is not None:
        tokenizer.pad = pad
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "c0")
        write(prefix, 0, 40)
        config = GPTDatasetConfig(
            random_seed=1234,
            sequence_length=24,
            blend=([prefix], None),
            split="1",
            tokenizer=tokenizer,
            create_attention_mask=True,
            **options,
        )
        made = BlendedMegatronDatasetBuilder(GPTDataset, [None] * 3, lambda: True, config)
        made = made.build()[0]
        rows = [row for row in made]
        text = [made._query_document_sample_shuffle_indices(at)[0] for at in range(len(made))]
        names = ("tokens", "labels", "loss_mask", "position_ids", "attention_mask")
        return {
            "name": name,
            "pad": pad,
            **{key: options[key] for key in options if isinstance(options[key], bool)},
            "text": [" ".join(map(str, row)) for row in text],
            **{key: sha256(np.stack([row[key].numpy() for row in rows])) for key in names},
        }


def main():
    counts = [1, 3, 37, 2419, 10_000]
    every = [("equal", n) for n in counts] + [("zipf", n) for n in counts[1:]]
    every += [("mixed", n) for n in counts[1:]] + [("uniform", n) for n in counts[1:]]
    with contextlib.redirect_stderr(None):
        cases = [
            built("one epoch of one corpus", [40]),
            built("a last epoch by itself", [40], samples=170),
            built("a last epoch with the others", [40], samples=215),
            built("three by weights", [40, 90, 25], weights=[0.3, 0.5, 0.2], samples=900),
            built("three by large weights", [40, 90, 25], weights=[30.0, 5.0, 65.0], samples=1000),
            built("three by their sizes", [40, 90, 25]),
            built("a hundred of three", [40, 90, 25], samples=100),
            built("a part of a split", [4000, 9000], weights=[0.5, 0.5], samples=700, split="969,30,1"),
            built("validation", [4000, 9000], weights=[0.5, 0.5], samples=50, split="949,50,1", part=1),
            built("test", [400, 900], samples=20, split="90,5,5", part=2),
            built("no extra token", [40, 90], samples=150, add_extra_token_to_sequence=False),
            built("thirty-seven", [40 + at for at in range(37)], samples=5000,
                  weights=[1.0 / (at + 1) for at in range(37)]),
        ]
        plain = {"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}
        masks = [
            masked("plain", **plain),
            masked("positions", **{**plain, "reset_position_ids": True}),
            masked("attention", **{**plain, "reset_attention_mask": True}),
            masked("loss", **{**plain, "eod_mask_loss": True}),
            masked("all", **{key: True for key in plain}),
            masked("no extra token", **{**plain, "eod_mask_loss": True,
                                        "add_extra_token_to_sequence": False}),
            masked("a token for padding", pad=11, **{**plain, "eod_mask_loss": True}),
            masked("the same with no extra token", pad=11, **plain, add_extra_token_to_sequence=False),
            masked("padding that is the end of a document", pad=EOD, **plain),
        ]
    found = {
        "megatron_core": "0.16.1",
        "steps": STEPS,
        "blended": [blended(kind, corpora) for kind, corpora in every],
        "exhausted": [exhausted(corpora) for corpora in counts],
        "built": cases,
        "masked": masks,
    }
    (HERE / "certificate.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
