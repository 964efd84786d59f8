"""Digests of samples as `headwater receive` writes them, computed from the arrays that a client gets."""

import struct

import numpy as np
import xxhash


def digests(batch: list[np.ndarray], keys: list[str]) -> list[str]:
    """Digest of each sample as `headwater receive --digests` writes it: XXH3-128 over the length and hash of
    its rows in every tensor and view, and its key."""
    samples = len(keys)
    *images, labels = batch
    assert labels.dtype == np.int32 and labels.shape == (samples,)
    rows = [image.reshape(-1, samples, *image.shape[1:]) for image in images]
    rows.append(labels.astype(np.int64).reshape(1, samples))
    found = []
    for sample in range(samples):
        digest = xxhash.xxh3_128()

        def add(data: bytes):
            digest.update(struct.pack("<Q", len(data)))
            digest.update(data)

        add(b"headwater sample 1")
        for tensor in rows:
            for view in tensor:
                row = view[sample].tobytes()
                digest.update(struct.pack("<Q", len(row)))
                add(xxhash.xxh3_128_intdigest(row).to_bytes(16, "little"))
        add(keys[sample].encode())
        found.append(digest.hexdigest())
    return found
