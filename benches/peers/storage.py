"""Samples per second of one process that reads photographs: this project's reader beside Python's
`webdataset`, `streaming` (MDS) and `datasets` (Parquet), in turns, from the kernel's cache.

usage: storage.py PROGRAM FOLDER [--rounds N] [--json]
PROGRAM is `headwater` (a release build), FOLDER holds WebDataset tars with .jpg and .cls members. Wants
`pip install webdataset mosaicml-streaming datasets pyarrow` in a virtual environment; a package that is
not there is left out, by name. The same photographs are written as MDS and Parquet to a temporary folder.

Each reader gives all samples of an epoch as bytes, without decoding them, and looks at every byte. CPU
time counts all threads of a process, and of both ends where there are two.
"""

import argparse
import importlib.metadata
import json
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib


def photos(tars):
    """Key, image and label of each sample."""
    for tar in tars:
        with tarfile.open(tar) as members:
            fields = {}
            for member in members:
                if not member.isfile():
                    continue
                key, _, name = member.name.partition(".")
                fields.setdefault(key, {})[name] = members.extractfile(member).read()
        for key, sample in fields.items():
            yield key, sample["jpg"], int(sample["cls"])


def look_at(data):
    """Loads every byte, at some gigabytes a second."""
    zlib.crc32(data)


class WebDataset:
    name = "webdataset"
    package = "webdataset"

    def __init__(self, tars, folder):
        import webdataset

        self.open = lambda: webdataset.WebDataset([str(tar) for tar in tars], shardshuffle=False)

    def images(self):
        return (sample["jpg"] for sample in self.open())


class Mds:
    name = "streaming (MDS)"
    package = "mosaicml-streaming"

    def __init__(self, tars, folder):
        from streaming import MDSWriter, StreamingDataset

        local = str(folder / "mds")
        with MDSWriter(out=local, columns={"jpg": "bytes", "cls": "int"}) as writer:
            for _, jpg, label in photos(tars):
                writer.write({"jpg": jpg, "cls": label})
        self.open = StreamingDataset(local=local, shuffle=False, batch_size=1)

    def images(self):
        return (sample["jpg"] for sample in self.open)


class Parquet:
    name = "datasets (Parquet)"
    package = "datasets"

    def __init__(self, tars, folder):
        import datasets
        import pyarrow
        import pyarrow.parquet

        rows = list(photos(tars))
        image = pyarrow.array([{"bytes": jpg, "path": key} for key, jpg, _ in rows])
        table = pyarrow.table({"image": image, "label": [label for _, _, label in rows]})
        path = str(folder / "photos.parquet")
        # Row groups as the hub writes them for images.
        pyarrow.parquet.write_table(table, path, row_group_size=100)
        self.open = lambda: datasets.load_dataset(
            "parquet", data_files=path, split="train", streaming=True
        )

    def images(self):
        return (row["image"]["bytes"] for row in self.open())


def epoch(reader):
    """Samples, bytes, seconds and CPU seconds of one pass."""
    started, cpu = time.perf_counter(), time.process_time()
    samples = total = 0
    for data in reader.images():
        look_at(data)
        samples += 1
        total += len(data)
    return samples, total, time.perf_counter() - started, time.process_time() - cpu


def ours(program, tars):
    """The rows of one round of `headwater bench storage`."""
    command = [program, "bench", "storage", "--dataset", f"photos={tars[0].parent}/*.tar"]
    command += ["--json", "--rounds", "1", "--seconds", "2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["rows"]


def measure(program, tars, folder, rounds):
    figures, versions, peers = {}, {}, []
    for peer in (WebDataset, Mds, Parquet):
        try:
            peers.append(peer(tars, folder))
            versions[peer.package] = importlib.metadata.version(peer.package)
        except ImportError as error:
            print(f"{peer.name} is left out: {error}", file=sys.stderr)
    # The first round fills caches and is not counted.
    for number in range(rounds + 1):
        row = {}
        for way in ours(program, tars):
            row[f"headwater, {way['way']}"] = (
                way["samples_per_s"],
                way["bytes_per_s"],
                way["bytes_per_cpu_s"],
            )
        for peer in peers:
            samples, total, seconds, cpu = epoch(peer)
            row[peer.name] = (samples / seconds, total / seconds, total / cpu)
        if number > 0:
            for name, values in row.items():
                figures.setdefault(name, []).append(values)
    medians = {
        name: [statistics.median(column) for column in zip(*values)]
        for name, values in figures.items()
    }
    return medians, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tars = sorted(arguments.folder.resolve().glob("*.tar"))
    if not tars:
        sys.exit(f"no tar in {arguments.folder}")
    with tempfile.TemporaryDirectory() as folder:
        medians, versions = measure(
            arguments.program, tars, pathlib.Path(folder), arguments.rounds
        )
    if arguments.json:
        print(json.dumps({"versions": versions, "rows": medians}))
        return
    print(f"Python {sys.version.split()[0]}, {versions}, medians of {arguments.rounds} rounds")
    print(f"{'way':22} {'samples/s':>10} {'GB/s':>7} {'GB/CPU second':>14}")
    for name, (samples, total, per_cpu) in medians.items():
        print(f"{name:22} {samples:10.0f} {total / 1e9:7.2f} {per_cpu / 1e9:14.2f}")


if __name__ == "__main__":
    main()
