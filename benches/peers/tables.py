#!/usr/bin/env python3
"""Tables and arrays below folders, by Headwater and by their formats' own libraries: equal, different, refused by whom.

    benches/peers/tables.py FOLDER.. [--program headwater] [--only parquet,hdf5] [--list 40] [--seconds 60]

Parquet by pyarrow, HDF5 by h5py, Zarr by zarr, MDS by mosaicml-streaming, TFRecord by tfrecord, npy and npz by NumPy,
CSV, TSV and JSONL by Python. Headwater's side is a storage node for each file, asked for all fields of all samples.
Files of HDF5 and Zarr are compared array by array. Each library reads in a process of its own, so that a crash or an
endless loop is one file's and is counted. The first `--rows` samples are compared, and the number of all. Where a read
of a Parquet file fails, its columns are compared one by one. `tables_made.py` writes files to compare.

Needs what requirements-tables.txt lists. Ends with status 1 if any sample differs, or if Headwater crashes or hangs.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
from pathlib import Path

import table_readers
from sides import Report, Side, judged, reason
from storage_node import Fatal, Late, Node, Refused

ENDINGS = {
    ".parquet": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".nc": "hdf5",
    ".nc4": "hdf5",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".tfrec": "tfrecord",
    ".npy": "npy",
    ".npz": "npy",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
# Formats whose arrays are compared one by one.
ARRAYS = ("hdf5", "zarr")
LATE = "refused late by headwater only"
ZARR = {"zarr.json", ".zarray", ".zgroup"}


def found_below(folder: Path) -> "list[tuple[str, Path]]":
    """Formats and places, in order. What lies in a folder that is a dataset belongs to it."""
    found = []
    for root, folders, files in os.walk(folder):
        folders.sort()
        root = Path(root)
        if ZARR & set(files):
            found.append(("zarr", root))
            folders.clear()
        elif "index.json" in files and is_mds(root / "index.json"):
            found.append(("mds", root))
            folders.clear()
        else:
            forms = ((ENDINGS.get(Path(name.lower().removesuffix(".gz")).suffix), name) for name in sorted(files))
            found += [(form, root / name) for form, name in forms if form is not None and is_of_its_ending(form, name)]
    return found


def is_of_its_ending(form: str, name: str) -> bool:
    return not name.endswith(".gz") or form in ("csv", "tsv", "jsonl", "tfrecord")


def is_mds(index: Path) -> bool:
    try:
        return any(shard["format"] == "mds" for shard in json.loads(index.read_text())["shards"])
    except (ValueError, TypeError, KeyError):
        return False


def by_headwater(task: dict):
    dataset = {"name": "tables", "shards": [pattern_of(task["path"])], "format": task["form"]}
    if task["column"]:
        dataset["columns"] = [task["column"]]
    with Node(task["program"], dataset, task["seconds"]) as node:
        return node.samples(task["rows"])


def pattern_of(path: str) -> str:
    """A path as a pattern that names only it."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)


def by_library(task: dict):
    return table_readers.samples(task["form"], Path(task["path"]), task["column"], task["rows"])


def child(side: str) -> None:
    """Reads what is named on standard input, and answers with a line of JSON each: how many samples, or an error."""
    import warnings

    warnings.simplefilter("ignore")
    # What libraries print is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        task = json.loads(line)
        try:
            if "to" not in task:
                answer = {"columns": table_readers.READERS[task["form"]][2](Path(task["path"]))}
            else:
                count, found = (by_headwater if side == "headwater" else by_library)(task)
                Path(task["to"]).write_bytes(pickle.dumps(found))
                answer = {"samples": count}
        except Refused as refused:
            answer = {"error": str(refused)}
        except Late as late:
            answer = {"error": str(late), "late": True}
        except Fatal as fatal:
            answer = {"error": str(fatal), "fatal": "hang" if str(fatal).startswith("hang") else "crash"}
        except table_readers.Unruled as unruled:
            answer = {"unruled": str(unruled)}
        except BaseException as error:
            # What is no word of the node is a fault of this program.
            answer = {"fault" if side == "headwater" else "error": reason(error)}
        print(json.dumps(answer), file=answers, flush=True)


def difference(ours: list, theirs: list) -> "str | None":
    """The first sample that differs; none where all are equal."""
    for number, (mine, other) in enumerate(zip(ours, theirs)):
        if isinstance(mine, str):
            return f"sample {number} is bad: {mine}"
        if mine.keys() != other.keys():
            return f"sample {number} has {shown(sorted(mine))}, the library {shown(sorted(other))}"
        for name in mine:
            if not table_readers.same(mine[name], other[name]):
                return f"sample {number}, {name}: {shown(mine[name])}, by the library {shown(other[name])}"
    return None


def shown(value) -> str:
    text = repr(value)
    return text if len(text) < 120 else f"{text[:120]}.."


def columns_of(library: Side, form: str, path: Path) -> "list[str | None]":
    """The columns of a file; only `None` if the library cannot list them."""
    return library.ask(form=form, path=str(path.absolute())).get("columns", [None])


def compare(sides: "dict[str, Side]", task: dict) -> "tuple[str, str]":
    """A verdict, and why."""
    library = table_readers.READERS[task["form"]][0]
    with tempfile.TemporaryDirectory() as folder:
        to = {name: str(Path(folder) / name) for name in sides}
        ours, theirs = (side.ask(**task, to=to[name]) for name, side in sides.items())
        if "fault" in ours:
            sys.exit(f"{task['path']}: {ours['fault']}")
        if "unruled" in theirs:
            verdict = f"no rule, {'refused' if 'error' in ours else 'served'} by headwater"
            return judged(ours, {}, library) if ours.get("fatal") else verdict, ours.get("error") or theirs["unruled"]
        verdict = judged(ours, theirs, library)
        if verdict == "refused by headwater only":
            return (LATE if ours.get("late") else verdict), ours["error"]
        if verdict in ("equal", "different"):
            why = difference(*(pickle.loads(Path(path).read_bytes()) for path in to.values()))
            if ours != theirs:
                return "different", f"{ours['samples']} samples, by the library {theirs['samples']}"
            return ("different", why) if why else ("equal", "")
        return verdict, ours.get("error") or theirs.get("error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--program", default="headwater", help="the program `headwater`")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(table_readers.READERS), help="formats to compare"
    )
    parser.add_argument(
        "--list", type=int, default=40, help="files that are listed of each kind that is not as it should be"
    )
    parser.add_argument("--seconds", type=float, default=60, help="after which a reader hangs")
    parser.add_argument("--rows", type=int, default=5000, help="samples that are compared of each file")
    parser.add_argument("--child", choices=["headwater", "library"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child)
    program = os.path.abspath(given.program) if "/" in given.program else given.program
    # A node has a limit of its own, which says more.
    limits = {"headwater": given.seconds * 2, "library": given.seconds}
    sides = {name: Side([sys.executable, __file__, "--child", name], limit) for name, limit in limits.items()}
    report = Report()
    for form, path in (found for folder in given.folders for found in found_below(folder)):
        if form not in given.only:
            continue
        columns = [None]
        if form in ARRAYS:
            columns = columns_of(sides["library"], form, path)
        while columns:
            column = columns.pop(0)
            task = {"form": form, "path": str(path.absolute()), "column": column, "rows": given.rows}
            verdict, why = compare(sides, task | {"program": program, "seconds": given.seconds})
            report.add(form, verdict, f"{path} {column}" if column else path, why)
            if verdict == LATE and form == "parquet" and column is None:
                columns = columns_of(sides["library"], form, path)
    sys.exit(report.print("tables", given.list))


if __name__ == "__main__":
    main()
