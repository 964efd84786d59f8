"""Images per second of the whole `dinov2` recipe on one GPU, from encoded images in memory: NVIDIA DALI and
this project in turns, over the same photos. Called by tests/gpu/run.sh.

DALI is tuned first: each of its settings in turn, with the best values of those before. What is fastest is measured in turns with
this project: DALI without its cache beside a first pass, in which no entry point is known, and DALI with it beside later passes.

usage: dali_gpu.py [OPTIONS] FOLDER -- HEADWATER [ITS OPTIONS]
Both have as many threads and both give binary16: DALI's types have no bfloat16. DALI's batches stay on the GPU, this project's are copied to
the host's memory, where its links take them from. The table is Markdown.
"""

import argparse
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy
import nvidia.dali

from recipes_dali import HUFFMAN_ON_GPU, gpu_pipeline

ENDINGS = (".jpg", ".jpeg")
# Rows of `headwater bench gpu`: all entry points made by kernels, and all known.
FIRST, LATER = "GPU that decodes, first pass", "GPU that decodes, later passes"
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


# DALI's settings, and the values that are tried of each, in this order.
SETTINGS = {
    "batch": [64, 256, 512],
    "load": [0.65, 0.0, 1.0],
    "huffman": [HUFFMAN_ON_GPU, 0],
    "gates": ["conditionals", "neutral"],
    "pipelines": [1, 2, 4],
}
# Of the time that there is, this much goes to trying them.
TUNING_SHARE = 0.6
# Enough for all decoded photos, where the cache of decoded images is on.
CACHE_MB = 4096


def size_of(jpeg):
    """Height and width, from the frame header."""
    at = 2
    while not (0xC0 <= jpeg[at + 1] <= 0xCF and jpeg[at + 1] not in (0xC4, 0xC8, 0xCC)):
        at += 2 + 256 * int(jpeg[at + 2]) + int(jpeg[at + 3])
    return 256 * int(jpeg[at + 5]) + int(jpeg[at + 6]), 256 * int(jpeg[at + 7]) + int(jpeg[at + 8])


class Dali:
    """DALI with its settings; `cached`: decoded images are kept on the GPU, which reads files in place of memory."""

    def __init__(self, photos, arguments, settings, cached=False):
        self.batch, count = settings["batch"], settings["pipelines"]
        sizes = [size_of(photo) for photo in photos]
        largest = tuple(max(size[n] for size in sizes) for n in range(2))
        self.pipelines = []
        for _ in range(count):
            self.pipelines.append(
                gpu_pipeline(
                    batches=None if cached else batches(photos, self.batch),
                    files=arguments.files if cached else None,
                    gates=settings["gates"],
                    load=settings["load"],
                    huffman=settings["huffman"],
                    cache_mb=CACHE_MB // count if cached else 0,
                    largest=largest,
                    batch_size=self.batch,
                    num_threads=max(1, arguments.threads // count),
                    device_id=arguments.device,
                    prefetch_queue_depth=PREFETCH,
                )
            )
        for pipeline in self.pipelines:
            pipeline.build()
        self.warm = len(photos) // self.batch + 1 if cached else 0

    def images_per_second(self, seconds):
        # Those that were made ahead while nobody looked are not counted, nor are those that fill the cache.
        for pipeline in self.pipelines:
            for _ in range(2 * PREFETCH + self.warm):
                pipeline.run()
        self.warm = 0
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            for pipeline in self.pipelines:
                views = pipeline.run()
                count += self.batch
        for view in views:
            # Whether a batch that is given out is finished, is the executor's affair.
            view.as_cpu()
        return count / (time.perf_counter() - started)

    def close(self):
        self.pipelines.clear()


def named(settings):
    """Settings in words."""
    words = {
        "batch": "batch {}",
        "load": "hw_decoder_load {}",
        "huffman": "hybrid_huffman_threshold {}",
        "gates": "{}",
        "pipelines": "{} pipelines",
    }
    return ", ".join(words[key].format(value) for key, value in settings.items())


def tuned(photos, arguments, measure):
    """The fastest settings, each setting tried in turn; all that was measured as a table, line by line."""
    best, rates = {key: values[0] for key, values in SETTINGS.items()}, {}
    end = time.monotonic() + TUNING_SHARE * arguments.limit
    print(f"| DALI {nvidia.dali.__version__}, {arguments.tune_seconds:g} s each | images/s |\n| --- | ---: |")

    def rate(settings):
        key = tuple(settings.values())
        if key not in rates:
            try:
                if time.monotonic() > end:
                    raise TimeoutError("no time is left for it")
                rates[key] = measure(settings)
                result = f"{rates[key]:.0f}"
            except Exception as error:  # noqa: BLE001
                result, rates[key] = f"NOT RUN: {(str(error) or repr(error)).splitlines()[0]}", 0.0
            print(f"| {named(settings)} | {result} |", flush=True)
        return rates[key]

    for key, values in SETTINGS.items():
        best = max(({**best, key: value} for value in values), key=rate)
    print()
    if arguments.best:
        arguments.best.write_text(json.dumps(best))
    return best


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

    def measure(settings):
        peer = Dali(photos, arguments, settings)
        try:
            return peer.images_per_second(arguments.tune_seconds)
        finally:
            peer.close()

    best = tuned(photos, arguments, measure)
    dali = f"DALI {nvidia.dali.__version__}, {named(best)}"
    makers = {
        dali: (Dali, photos, arguments, best),
        f"{dali}, decoded images cached": (Dali, photos, arguments, best, True),
    }
    ours = {
        "nvjpeg": ("headwater, nvjpeg", "nvjpeg", best["load"], "GPU, first pass", 1),
        "processor": ("headwater, the processor decodes", "turbojpeg", 0.0, "GPU, first pass", 1),
        # A thread waits for the GPU while another one works: docs/gpu.md advises more threads than cores here.
        "first": ("headwater, kernels decode, first pass", "turbojpeg", 0.0, FIRST, 2),
        "later": ("headwater, kernels decode, later passes", "turbojpeg", 0.0, LATER, 2),
    }
    for decoder in arguments.decoders:
        name, *how, times = ours[decoder]
        threads = times * arguments.threads
        makers[f"{name}, {threads} threads"] = (Ours, *how, threads, arguments)
    found = {}
    for name, (make, *how) in makers.items():
        try:
            found[name] = make(*how)
            found[name].images_per_second(1)
        except Exception as error:  # noqa: BLE001
            found.pop(name, None)
            print(f"NOT RUN: {name}: {error}\n")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("headwater", nargs="+", help="the program, with options for all its commands")
    decoders = ["first", "later", "processor", "nvjpeg"]
    parser.add_argument("--decoders", nargs="*", default=decoders, choices=decoders, help="this project's ways to decode")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--tune-seconds", type=float, default=3, help="of each of DALI's settings")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for everything; fewer rounds where they are over")
    parser.add_argument("--best", type=pathlib.Path, help="file for DALI's fastest settings, as JSON")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--device", type=int, default=0)
    return parser.parse_args()


def main():
    arguments = parse()
    end = time.monotonic() + arguments.limit
    photos = read_photos(arguments.folder)
    with tempfile.TemporaryDirectory() as folder:
        # DALI's cache needs names.
        arguments.files = []
        for number, photo in enumerate(photos):
            arguments.files.append(f"{folder}/{number}.jpg")
            photo.tofile(arguments.files[-1])
        peers = contenders(photos, arguments)
        rates = {name: [] for name in peers}
        for _ in range(arguments.rounds):
            began = time.monotonic()
            for name, peer in peers.items():
                rates[name].append(peer.images_per_second(arguments.seconds))
            # One more round takes as long, and has to be at its end in time.
            if 2 * time.monotonic() - began > end:
                break
    report(rates, len(photos), arguments)
    # A comparison without either side is none.
    sys.exit(not all(any(side in name for name in rates) for side in ("DALI", "headwater")))


def report(rates, photos, arguments):
    medians = {name: statistics.median(values) for name, values in rates.items()}
    dali = {"cached" in name: rate for name, rate in medians.items() if "DALI" in name}
    print(f"{photos} photos, {arguments.threads} threads of DALI;")
    rounds = max(map(len, rates.values()), default=0)
    print(f"medians of {rounds} interleaved rounds of {arguments.seconds:g} s\n")
    print("| system | `dinov2`, images/s | spread | over DALI in the same pass |")
    print("| --- | ---: | ---: | ---: |")
    for name, rate in medians.items():
        spread = 100 * (max(rates[name]) - min(rates[name])) / rate
        beside = dali.get("later" in name)
        ratio = "" if beside is None or "DALI" in name else f"{rate / beside:.2f} x"
        print(f"| {name} | {rate:.0f} | {spread:.0f} % | {ratio} |")


if __name__ == "__main__":
    main()
