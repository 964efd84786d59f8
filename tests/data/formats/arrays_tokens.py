"""Token shards of Megatron."""

import struct

import numpy as np
from arrays_expected import expect, path, refuse


def write_tokens(name, sequences, documents, dtype):
    """An indexed dataset, as documented in NVIDIA/Megatron-LM,
    megatron/core/datasets/indexed_dataset.py: `sequences` are lists of tokens, `documents` the number
    of sequences of each document."""
    codes = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}
    arrays = [np.array(tokens, dtype="<" + dtype) for tokens in sequences]
    with open(path(name + ".bin"), "wb") as file:
        for array in arrays:
            file.write(array.tobytes())
    lengths = np.array([len(array) for array in arrays], dtype="<i4")
    sizes = [array.nbytes for array in arrays]
    pointers = np.array([sum(sizes[:at]) for at in range(len(sizes))], dtype="<i8")
    firsts = np.array([sum(documents[:at]) for at in range(len(documents) + 1)], dtype="<i8")
    with open(path(name + ".idx"), "wb") as file:
        file.write(b"MMIDIDX\0\0")
        file.write(struct.pack("<QBQQ", 1, codes[dtype], len(lengths), len(firsts)))
        for array in (lengths, pointers, firsts):
            file.write(array.tobytes())


def token_rows(name, tokens, length):
    """Samples of GPTDataset in order: tokens, and the same one later."""
    samples = []
    for at in range((len(tokens) - 1) // length):
        fields = {}
        for field, start in (("tokens", at * length), ("labels", at * length + 1)):
            cut = np.ascontiguousarray(tokens[start : start + length])
            fields[field] = cut.tobytes()
            fields[field + ".dtype"] = cut.dtype.str.encode()
            fields[field + ".shape"] = str(length).encode()
        samples.append((f"{name}/{at:08}", fields))
    return samples


def make():
    random = np.random.default_rng(2)
    for name, dtype, documents in (("short", "u2", [2, 1, 3]), ("long", "i4", [1, 1, 1])):
        sequences = [random.integers(0, 30000, n) for n in random.integers(0, 60, sum(documents))]
        write_tokens(f"tokens/{name}", sequences, documents, dtype)
        read = np.fromfile(path(f"tokens/{name}.bin"), dtype="<" + dtype)
        for length in (7, 16):
            expect(f"tokens/{name}.bin", token_rows(name, read, length), sequence_length=length)
        samples = token_rows(name, read, 7)
        expect(f"tokens/{name}.bin", samples, sequence_length=7, shard_samples=5)
    refuse("tokens/short.bin", "needs `sequence_length`")
    write_tokens("tokens/floats", [[0.5]], [1], "f4")
    refuse("tokens/floats.bin", "no whole number", sequence_length=1)
