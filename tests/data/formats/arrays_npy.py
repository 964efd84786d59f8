"""Files of NumPy."""

import numpy as np
from arrays_expected import expect, path, refuse, rows


def make():
    random = np.random.default_rng(1)
    plain = {
        "rows": random.standard_normal((5, 3, 2)).astype("<f4"),
        "pixels": random.integers(0, 256, (4, 6, 6, 3), dtype=np.uint8),
        "labels": np.array([3, -1, 2**40], dtype="<i8"),
        "scores": np.array([0.5, -1.25, 3.0, 0.1], dtype="<f8"),
        "halves": np.array([0.5, -2.0], dtype="<f2"),
        "truth": np.array([True, False, True]),
        "words": np.array(["tench", "", "\u00e9t\u00e9"]),
        "codes": np.array([b"ab", b"c"]),
        "big-labels": np.array([1, 2, -3], dtype=">i4"),
        "days": np.array(["2020-01-01", "1969-12-31"], dtype="datetime64[D]"),
        "waves": (random.standard_normal(3) + 1j).astype("<c8"),
    }
    for name, array in plain.items():
        np.save(path(f"npy/{name}.npy"), array)
        read = np.load(path(f"npy/{name}.npy"))
        expect(f"npy/{name}.npy", rows(name + ".npy", {"bin": read}))
    expect("npy/rows.npy", rows("rows.npy", {"bin": plain["rows"]}), shard_samples=2)
    expect("npy/rows.npy", rows("rows.npy", {"bin": plain["rows"]}), columns=["bin"])
    refuse("npy/rows.npy", "`columns` names `image`, and it has `bin`", columns=["image"])
    with open(path("npy/version2.npy"), "wb") as file:
        np.lib.format.write_array(file, plain["rows"], version=(2, 0))
    expect("npy/version2.npy", rows("version2.npy", {"bin": np.load(path("npy/version2.npy"))}))
    refused = {
        "fortran": (np.asfortranarray(plain["rows"]), "Fortran order"),
        "objects": (np.array([{}, []], dtype=object), "Python objects"),
        "records": (np.zeros(3, dtype=[("a", "<f4"), ("b", "<i2")]), "structured"),
        "big-endian": (plain["rows"].astype(">f4"), "little-endian"),
        "scalar": (np.float32(1), "has no axis"),
    }
    for name, (array, words) in refused.items():
        np.save(path(f"npy/{name}.npy"), array)
        refuse(f"npy/{name}.npy", words)
    together = {
        "image": random.integers(0, 40, (6, 5, 4, 3), dtype=np.uint8),
        "label": np.arange(6) % 4,
        "caption": np.array([f"picture {n}" for n in range(6)]),
        "scale": np.float32(2),
    }
    np.savez(path("npz/stored.npz"), **together)
    np.savez_compressed(path("npz/deflated.npz"), **together)
    np.savez(path("npz/uneven.npz"), a=np.zeros((3, 2)), b=np.zeros((4, 2)))
    for name in ("stored", "deflated"):
        with np.load(path(f"npz/{name}.npz")) as read:
            arrays = {column: read[column] for column in read.files if read[column].ndim}
        expect(f"npz/{name}.npz", rows(name + ".npz", arrays))
        some = {column: arrays[column] for column in ("label", "image")}
        expect(f"npz/{name}.npz", rows(name + ".npz", some), columns=["label", "image"])
        expect(f"npz/{name}.npz", rows(name + ".npz", arrays), shard_samples=4)
        refuse(f"npz/{name}.npz", "`columns` names `imagee`", columns=["imagee"])
    refuse("npz/uneven.npz", "array `a` has 3 rows and `b` has 4")
    expect("npz/uneven.npz", rows("uneven.npz", {"b": np.zeros((4, 2))}), columns=["b"])
