#!/usr/bin/env python3
"""Writes the files of arrays/ and, by the formats' own packages, what is in them.

    pip install numpy==2.4.6 h5py==3.16.0 hdf5plugin==7.1.0 netCDF4==1.7.5.1.post1 zarr==3.1.6 numcodecs==0.16.6
    python3 tests/data/formats/make_arrays.py [FOLDER KIND..]

arrays/expected.json has for each file its samples, as the package READS them: key, and the first 16
digits of the SHA-256 of each field. For files that are refused it has words of the refusal. `options`
are keys of the dataset. Files of one kind lie in a folder. With FOLDER and some of npy, tokens, lines,
zarr, hdf5, only these are written, elsewhere; status 77 says that a package is missing.
"""

import importlib
import json
import shutil
import sys

KINDS = ["npy", "tokens", "lines", "zarr", "hdf5"]


def main(folder, kinds):
    """Writes the files of some kinds, and what is in them."""
    try:
        import arrays_expected

        makers = [importlib.import_module("arrays_" + kind) for kind in kinds]
    except ImportError as error:
        print(error)
        sys.exit(77)
    if folder:
        arrays_expected.HERE = folder
    else:
        shutil.rmtree(arrays_expected.HERE, ignore_errors=True)
    for maker in makers:
        maker.make()
    with open(arrays_expected.path("expected.json"), "w") as file:
        cases = sorted(arrays_expected.EXPECTED.items())
        file.write("[\n" + ",\n".join(json.dumps(case, sort_keys=True) for _, case in cases) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:] or KINDS)
