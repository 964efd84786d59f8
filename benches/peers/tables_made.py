#!/usr/bin/env python3
"""Writes tables and arrays into a folder, by each format's own library, in the combinations that people use.

    benches/peers/tables_made.py FOLDER

The same versions of the libraries write the same values. `tables.py` compares what Headwater reads of them. A
combination that a library does not have is named and left out.
"""

import argparse
import shutil
import warnings
from pathlib import Path

from made_arrays import hdf5, npy, zarr
from made_tables import lines, mds, parquet, tfrecord

FORMATS = {"parquet": parquet, "hdf5": hdf5, "zarr": zarr, "mds": mds, "tfrecord": tfrecord, "npy": npy, "lines": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("formats", nargs="*", default=list(FORMATS), help="formats to write")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.formats:
        folder = given.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        FORMATS[name](folder)


if __name__ == "__main__":
    main()
