"""Samples per second of one process that reads photographs: this project's reader beside Python's
`webdataset`, `streaming` (MDS) and `datasets` (Parquet), in turns, from the kernel's cache.

usage: storage.py PROGRAM FOLDER [--rounds N] [--json]
PROGRAM is `headwater` (a release build), FOLDER holds WebDataset tars with .jpg and .cls members. What it
wants is in requirements-storage.txt beside it, to be installed with --no-deps. A package that is not there
is left out, by name. The same photographs are written as MDS and Parquet to a temporary folder, and put
into a bucket of moto, an S3 server in Python on this host.

Each reader gives all samples of an epoch as bytes, without decoding them, and looks at every byte. CPU
time counts all threads of a process, and of both ends where there are two; not that of moto.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib

BUCKET = "photos"


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
    # Its files below the folder, for this project's reader.
    ours = None

    def __init__(self, tars, folder):
        import webdataset

        self.open = lambda: webdataset.WebDataset([str(tar) for tar in tars], shardshuffle=False)

    def images(self):
        return (sample["jpg"] for sample in self.open())


class Mds:
    name = "streaming (MDS)"
    package = "mosaicml-streaming"
    # Its files below the folder, for this project's reader.
    ours = "mds"

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
    # Its files below the folder, for this project's reader.
    ours = "photos.parquet"

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


class Bucket:
    """The tars in a bucket of moto."""

    package = "moto"

    def __init__(self, tars):
        import boto3
        import moto.server  # noqa: F401

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            if self.process.poll() is not None:
                sys.exit("moto ended")
            time.sleep(0.05)
        client = boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        client.create_bucket(Bucket=BUCKET)
        for tar in tars:
            client.put_object(Bucket=BUCKET, Key=tar.name, Body=tar.read_bytes())

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ours(program, shards, environment=None):
    """The rows of one round of `headwater bench storage`."""
    command = [program, "bench", "storage", "--dataset", f"photos={shards}"]
    command += ["--json", "--rounds", "1", "--seconds", "2"]
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    for way in json.loads(done.stdout)["rows"]:
        figures = (way["samples_per_s"], way["bytes_per_s"], way["bytes_per_cpu_s"])
        yield way["way"], figures


def rows(program, tars, folder, bucket, peers):
    """One round: what each reader did."""
    for way, figures in ours(program, f"{tars[0].parent}/*.tar"):
        yield f"headwater, tar, {way}", figures
    for peer in peers:
        if peer.ours:
            for way, figures in ours(program, folder / peer.ours):
                yield f"headwater, {peer.ours}, {way}", figures
    if bucket:
        for way, figures in ours(program, f"s3://{BUCKET}/*.tar", bucket.environment):
            yield f"headwater, S3, {way}", figures
    for peer in peers:
        samples, total, seconds, cpu = epoch(peer)
        yield peer.name, (samples / seconds, total / seconds, total / cpu)


def measure(program, tars, folder, rounds):
    figures, versions, made = {}, {}, []
    for kind in (WebDataset, Mds, Parquet, Bucket):
        try:
            made.append(kind(tars) if kind is Bucket else kind(tars, folder))
            versions[kind.package] = importlib.metadata.version(kind.package)
        except ImportError as error:
            print(f"{kind.__name__} is left out: {error}", file=sys.stderr)
    peers = [one for one in made if not isinstance(one, Bucket)]
    bucket = next((one for one in made if isinstance(one, Bucket)), None)
    try:
        # The first round fills caches and is not counted.
        for number in range(rounds + 1):
            for name, values in rows(program, tars, folder, bucket, peers):
                if number > 0:
                    figures.setdefault(name, []).append(values)
    finally:
        if bucket:
            bucket.stop()
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
    print(f"{'way':32} {'samples/s':>10} {'GB/s':>7} {'GB/CPU second':>14}")
    for name, (samples, total, per_cpu) in medians.items():
        print(f"{name:32} {samples:10.0f} {total / 1e9:7.2f} {per_cpu / 1e9:14.2f}")


if __name__ == "__main__":
    main()
