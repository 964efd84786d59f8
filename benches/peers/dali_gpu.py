"""Images per second of the whole `dinov2` recipe on one GPU, from encoded images in memory: NVIDIA DALI and
this project in turns, over the same photos. Called by tests/gpu/run.sh.

usage: dali_gpu.py [OPTIONS] FOLDER -- HEADWATER [ITS OPTIONS]
Both have as many threads and both give binary16: DALI's types have no bfloat16. DALI's batches stay on the GPU, this project's are copied to
the host's memory, where its links take them from. The table is Markdown.
"""

import argparse
import itertools
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import time

import numpy
import nvidia.dali

from recipes_dali import gpu_pipeline

ENDINGS = (".jpg", ".jpeg")
# Batches that DALI works on ahead of the one that is waited for: its own default.
PREFETCH = 2


def read_photos(folder):
    """JPEG files of a folder, and of the tars in it."""
    photos = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.name.lower().endswith(ENDINGS):
            photos.append(path.read_bytes())
        elif path.suffix == ".tar":
            with tarfile.open(path) as members:
                names = (m for m in members if m.name.lower().endswith(ENDINGS))
                photos.extend(members.extractfile(member).read() for member in names)
    if not photos:
        sys.exit(f"no JPEG in {folder}")
    return [numpy.frombuffer(photo, numpy.uint8) for photo in photos]


def batches(photos, size):
    """The photos in turn, so many together, without end."""
    turn = itertools.cycle(photos)
    while True:
        yield list(itertools.islice(turn, size))


class Dali:
    """DALI with a share of the images for the engines."""

    def __init__(self, photos, load, arguments):
        self.batch = arguments.batch
        self.pipeline = gpu_pipeline(
            batches(photos, arguments.batch),
            load,
            batch_size=arguments.batch,
            num_threads=arguments.threads,
            device_id=arguments.device,
            prefetch_queue_depth=PREFETCH,
        )
        self.pipeline.build()

    def images_per_second(self, seconds):
        # Those that were made ahead while nobody looked are not counted.
        for _ in range(2 * PREFETCH):
            self.pipeline.run()
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            views = self.pipeline.run()
            count += 1
        for view in views:
            # Whether a batch that is given out is finished, is the executor's affair.
            view.as_cpu()
        return count * self.batch / (time.perf_counter() - started)


class Ours:
    """`headwater bench gpu`, whole back end, with one decoder; a row of its table."""

    def __init__(self, decoder, load, row, threads, arguments):
        self.row = row
        recipe = {"preset": "dinov2", "dtype": "f16", "decoder": decoder, "hw_decoder_load": load}
        settings = [f"recipe.{key}={value}" for key, value in recipe.items()]
        settings += [f"augment.threads={threads}"]
        settings += [f"augment.cuda_device={arguments.device}"]
        program, *options = arguments.headwater
        self.command = [program, *options]
        for setting in settings:
            self.command += ["--set", setting]
        self.command += ["bench", "gpu", "--only", "back-end", "--photos", str(arguments.folder)]

    def images_per_second(self, seconds):
        command = [*self.command, "--seconds", str(round(seconds))]
        ran = subprocess.run(command, capture_output=True, text=True)
        found = re.search(rf"^\| whole back end, {self.row} \| *(\d+) \|$", ran.stdout, re.MULTILINE)
        if ran.returncode != 0 or not found:
            raise RuntimeError(f"{' '.join(command)}: {ran.stderr.strip() or ran.stdout}")
        return float(found.group(1))


def contenders(photos, arguments):
    """Name -> contender; one that cannot be had is left out with a loud line."""
    makers = {}
    for load in arguments.loads:
        makers[f"DALI {nvidia.dali.__version__}, hw_decoder_load {load}"] = (Dali, photos, load)
        if "nvjpeg" in arguments.decoders:
            makers[f"headwater, nvjpeg, hw_decoder_load {load}"] = (Ours, "nvjpeg", load, "GPU", arguments.threads)
    if "processor" in arguments.decoders:
        makers["headwater, the processor decodes"] = (Ours, "turbojpeg", 0.0, "GPU", arguments.threads)
    if "kernels" in arguments.decoders:
        # A thread waits for the GPU while another one works: docs/gpu.md advises more threads than cores here.
        threads = 2 * arguments.threads
        for which in ("first pass", "later passes"):
            name = f"headwater, kernels decode, {threads} threads, {which}"
            makers[name] = (Ours, "turbojpeg", 0.0, f"GPU that decodes, {which}", threads)
    found = {}
    for name, (make, *how) in makers.items():
        try:
            found[name] = make(*how, arguments)
            found[name].images_per_second(1)
        except Exception as error:  # noqa: BLE001
            found.pop(name, None)
            print(f"NOT RUN: {name}: {error}\n")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("headwater", nargs="+", help="the program, with options for all its commands")
    parser.add_argument("--loads", type=float, nargs="*", default=[0.65, 0.0], metavar="SHARE")
    decoders = ["kernels", "processor", "nvjpeg"]
    parser.add_argument("--decoders", nargs="*", default=decoders, choices=decoders, help="this project's ways to decode")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="images of DALI's batches")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--device", type=int, default=0)
    return parser.parse_args()


def main():
    arguments = parse()
    photos = read_photos(arguments.folder)
    peers = contenders(photos, arguments)
    rates = {name: [] for name in peers}
    for _ in range(arguments.rounds):
        for name, peer in peers.items():
            rates[name].append(peer.images_per_second(arguments.seconds))
    report(rates, len(photos), arguments)
    # A comparison without either side is none.
    sys.exit(not all(any(side in name for name in rates) for side in ("DALI", "headwater")))


def report(rates, photos, arguments):
    medians = {name: statistics.median(values) for name, values in rates.items()}
    dali = max((rate for name, rate in medians.items() if "DALI" in name), default=None)
    print(f"{photos} photos, {arguments.threads} threads each, DALI's batches of {arguments.batch};")
    print(f"medians of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s\n")
    print("| system | `dinov2`, images/s | spread | over the fastest of DALI |")
    print("| --- | ---: | ---: | ---: |")
    for name, rate in medians.items():
        spread = 100 * (max(rates[name]) - min(rates[name])) / rate
        ratio = "" if dali is None or "DALI" in name else f"{rate / dali:.2f} x"
        print(f"| {name} | {rate:.0f} | {spread:.0f} % | {ratio} |")


if __name__ == "__main__":
    main()
