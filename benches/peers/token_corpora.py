"""Megatron's own loader beside Headwater over the same corpora: equal batches, first batch, samples a core.

    pip install --no-deps megatron-core==0.16.1 && pip install numpy torch packaging
    python benches/peers/token_corpora.py FOLDER

Writes corpora of random tokens into FOLDER, 0.7 GB of them, and Markdown to standard output. Both sides run in this process, in turns, and
take their time from the processor's: a sample's is that of all threads. Run it on a quiet machine, after one run that fills the page cache.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib
import resource
import shutil
import statistics
import struct
import sys
import time

import numpy as np
import torch
from headwater.integrations.megatron import gpt_loader
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from torch.utils.data import DataLoader

EOD = 0
SEED = 1234
ROUNDS = 5


class Tokenizer:
    vocab_size = 50_000
    eod = EOD
    unique_identifiers = {"class": "Tokenizer"}


def write(prefix, documents, mean, seed):
    """Documents of random lengths, each with its end."""
    random = np.random.default_rng(seed)
    each = np.maximum(1, random.lognormal(np.log(mean), 0.8, documents)).astype("<i4")
    tokens = random.integers(1, 50_000, each.sum()).astype("<u2")
    tokens[np.cumsum(each) - 1] = EOD
    tokens.tofile(f"{prefix}.bin")
    begin = np.concatenate([[0], np.cumsum(each[:-1], dtype=np.int64) * 2]).astype("<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        for array in (each, begin, np.arange(documents + 1, dtype="<i8")):
            file.write(array.tobytes())


def corpora(folder, count, documents, mean):
    """A list of corpora with unlike weights."""
    folder = pathlib.Path(folder) / f"{count}"
    folder.mkdir(parents=True, exist_ok=True)
    weights = [float(1 + at * 7919 % 1009) for at in range(count)]
    for at in range(count):
        if not (folder / f"c{at}.idx").exists():
            write(folder / f"c{at}", documents, mean, at)
    listed = "".join(f"{weight} {folder}/c{at}\n" for at, weight in enumerate(weights))
    (folder / "blend.txt").write_text(listed)
    return folder / "blend.txt", ([f"{folder}/c{at}" for at in range(count)], weights)


def dataset(blend, length, samples, **options):
    """Megatron's, as its training script builds it."""
    masks = {"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}
    config = GPTDatasetConfig(
        random_seed=SEED,
        sequence_length=length,
        blend=blend,
        split="100,0,0",
        tokenizer=Tokenizer(),
        create_attention_mask=False,
        num_dataset_builder_threads=2,
        **{**masks, **options},
    )
    with contextlib.redirect_stderr(None):
        return BlendedMegatronDatasetBuilder(GPTDataset, [samples, 1, 1], lambda: True, config).build()[0]


def batches_of(dataset, micro, rank=0, world=1, begin=0):
    """`MegatronPretrainingSampler` with the collation of its loader, without worker processes: a rank's consecutive share."""
    whole = len(dataset) // (micro * world)
    steps = [range((step * world + rank) * micro, (step * world + rank + 1) * micro) for step in range(begin, whole)]
    return DataLoader(dataset, batch_sampler=steps, num_workers=0)


def equal(folder):
    """Compares all tensors of all batches of two ranks, with every option on."""
    path, blend = corpora(folder, 7, 2000, 400)
    options = {"reset_position_ids": True, "reset_attention_mask": True, "eod_mask_loss": True}
    theirs = dataset(blend, 512, 3000, **options)
    compared = 0
    for rank in range(2):
        given = {"sequence_length": 512, "micro_batch_size": 4, "samples": 3000, "seed": SEED, "eod": EOD, **options}
        ours = gpt_loader(str(path), **given, rank=rank, world_size=2, embedded="threads")
        for mine, upstream in zip(ours, batches_of(theirs, 4, rank, 2), strict=True):
            for name in ("tokens", "labels", "loss_mask", "position_ids"):
                assert mine[name].dtype == upstream[name].dtype, name
                assert torch.equal(mine[name], upstream[name]), name
            compared += 1
        ours.close()
    print(f"Equal in all tensors: {compared} batches of 4 x 512 tokens, 2 ranks, 7 corpora, all options.\n")


def first_batch(folder):
    """Seconds from nothing to the first batch of 1,000,000 samples, with nothing kept from before."""
    print("\n| corpora | Headwater, first batch (s) | first batch after 900,000 samples (s) | megatron-core, first batch (s) |")
    print("| --- | --- | --- | --- |")
    for count, documents in ((100, 2000), (2419, 80), (6000, 80), (10_000, 80)):
        path, blend = corpora(folder, count, documents, 200)
        samples, own = 1_000_000, []
        for consumed in (900_000, 0):
            begin = time.perf_counter()
            given = {"sequence_length": 2048, "micro_batch_size": 8, "samples": samples, "seed": SEED}
            ours = gpt_loader(str(path), **given, consumed_samples=consumed, embedded="threads")
            mine = next(iter(ours))
            own.append(time.perf_counter() - begin)
            ours.close()
        for kept in path.parent.glob("c*/cache"):
            shutil.rmtree(kept)
        begin = time.perf_counter()
        try:
            upstream = next(iter(batches_of(dataset(blend, 2048, samples), 8)))
            peer = f"{time.perf_counter() - begin:.1f}"
            assert torch.equal(mine["tokens"], upstream["tokens"])
        except OSError as error:
            # A corpus takes three open files for as long as it is used.
            assert error.errno == errno.EMFILE, error
            peer = f"fails: more than {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,} open files"
        print(f"| {count:,} | {own[1]:.2f} | {own[0]:.2f} | {peer} |", flush=True)


def rate(folder, micro):
    """Samples a second of one core: the processor's time of this process and of its children."""
    path, blend = corpora(folder, 3, 20_000, 600)
    length, samples, measured = 4096, 20_000, 6400
    theirs = dataset(blend, length, samples)
    given = {"sequence_length": length, "micro_batch_size": micro, "samples": samples, "seed": SEED}

    def spent():
        return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def take(batches, steps):
        taken = 0
        for _, batch in zip(range(steps), batches):
            taken += len(batch["tokens"])
        return taken

    def own():
        with contextlib.closing(gpt_loader(str(path), **given, embedded="threads")) as ours:
            begin = iter(ours)
            take(begin, 50)
            before = spent()
            return take(begin, measured // micro) / (spent() - before)

    def peer():
        begin = iter(batches_of(theirs, micro))
        take(begin, 50)
        before = spent()
        return take(begin, measured // micro) / (spent() - before)

    found = {"Headwater": [], "megatron-core": []}
    for _ in range(ROUNDS):
        found["Headwater"].append(own())
        found["megatron-core"].append(peer())
    ratios = [mine / upstream for mine, upstream in zip(*found.values())]
    own, peer = (f"{statistics.median(each):,.0f}" for each in found.values())
    apart = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"| {micro} | {own} | {peer} | {apart} |", flush=True)


if __name__ == "__main__":
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    equal(sys.argv[1])
    print("| micro-batch | Headwater, samples/s a core | megatron-core | ratio |\n| --- | --- | --- | --- |")
    for size in (4, 8, 32):
        rate(sys.argv[1], size)
    first_batch(sys.argv[1])
