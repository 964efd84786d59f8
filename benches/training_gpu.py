"""The training of examples/train_dinov2.py on one GPU with four loaders in turns: a ViT-S/16 in bf16 with 2 + 8 crops.

usage: training_gpu.py [OPTIONS] PHOTOS -- HEADWATER [ITS OPTIONS]

torch: PyTorch's DataLoader with torchvision on tensors, whose processes make parts of a batch that are joined on the GPU
dali: NVIDIA DALI on the same GPU, with the settings that benches/peers/dali_gpu.py has found (--dali)
cpu: Headwater with a worker on the processor, which the receiver copies to the GPU
gpu: Headwater with a worker on the same GPU, over the `cuda` link

PHOTOS is a folder of JPEGs or of tars with them. They are repeated until an epoch has --steps batches, each with a number of
its own in a comment: in the first epoch no loader has seen any of them. Masks are the same for all. Each loader trains a new
model of the same seed for two epochs. A step waits until its batch is on the GPU, and ends when its losses are known. The
table is Markdown; the first batch of an epoch counts in its own column only. Tests run it with --device cpu and a small model.
"""

import argparse
import gc
import io
import itertools
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benches" / "peers")]
try:
    import torch
    from PIL import Image
    from train_dinov2 import Training
    from training_gpu_loaders import LOADERS
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)

from dinov2 import GLOBAL, LOCAL, LOCALS

# Of the GPU's memory, what PyTorch may take: workers, DALI and slots of batches have the rest.
MEMORY_SHARE = 0.75
SAMPLES_OF_A_SHARD = 1000
# Steps before the clock starts, with made batches.
WARM_UP_STEPS = 2


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("headwater", nargs="+", help="the program, with options for all its commands")
    parser.add_argument("--device", default="cuda:0", help="`cpu` leaves out what needs a GPU")
    parser.add_argument("--loaders", help="some of torch,dali,cpu,gpu; by default all that the device allows")
    parser.add_argument("--threads", type=int, default=16, help="of each loader; processes of PyTorch's")
    parser.add_argument("--batch-size", type=int, default=512, help="halved until a step fits into the GPU's memory")
    parser.add_argument("--steps", type=int, default=20, help="of an epoch")
    parser.add_argument("--limit", type=float, default=600, help="seconds for everything, shared evenly by the loaders")
    parser.add_argument("--dali", type=Path, help="DALI's settings, as dali_gpu.py --best writes them")
    parser.add_argument("--dim", type=int, default=384, help="width of the transformer")
    parser.add_argument("--depth", type=int, default=12, help="blocks of the transformer")
    parser.add_argument("--prototypes", type=int, default=16384)
    parser.add_argument("--worker-memory", type=int, default=8 << 30, help="bytes of the GPU for Headwater's worker")
    return parser.parse_args()


def read_photos(folder):
    """Baseline or progressive JPEGs in RGB, as bytes: all loaders decode these."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".tar":
            with tarfile.open(path) as members:
                found += [members.extractfile(member).read() for member in members if member.isfile()]
        elif path.is_file():
            found.append(path.read_bytes())
    found = [encoded for encoded in found if encoded.startswith(b"\xff\xd8") and Image.open(io.BytesIO(encoded)).mode == "RGB"]
    if not found:
        sys.exit(f"no JPEG in {folder}")
    return found


def numbered(photos, count):
    """The photos in turns, each with a comment behind its first marker: no two are the same file."""
    for number in range(count):
        encoded = photos[number % len(photos)]
        yield encoded[:2] + b"\xff\xfe\x00\x0a" + number.to_bytes(8, "big") + encoded[2:]


def write_shards(samples, folder):
    for first in range(0, len(samples), SAMPLES_OF_A_SHARD):
        with tarfile.open(folder / f"photos-{first:08}.tar", "w") as shard:
            for number, encoded in enumerate(samples[first : first + SAMPLES_OF_A_SHARD], first):
                for ending, content in (("jpg", encoded), ("cls", b"0")):
                    member = tarfile.TarInfo(f"{number:08}.{ending}")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))


class Busy:
    """The share of a time in which the GPU runs anything, by NVML, which is asked ten times a second."""

    def __init__(self, device):
        self.device, self.seen, self.end = device, [], threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while self.device.type == "cuda" and not self.end.wait(0.1):
            try:
                self.seen.append(torch.cuda.utilization(self.device))
            except Exception as error:  # noqa: BLE001
                return print(f"NOT RUN: the GPU's busy share: {error}")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()

    def __str__(self):
        return f"{sum(self.seen) / len(self.seen):.0f} %" if self.seen else "-"


def made_training(options):
    """The example's student and teacher, whose losses are computed in bf16; and the masks of every batch."""
    size, patch, rows = GLOBAL[0], 16, 2 * options.batch_size
    schedule = {"steps": 10_000, "lr": 5e-4, "momentum": 0.99, "temperature": 0.04, "seed": 0}
    shape = {"dim": options.dim, "depth": options.depth, "prototypes": options.prototypes}
    training = Training(SimpleNamespace(size=size, patch=patch, device=options.device, **schedule, **shape))
    for network in (training.student, training.teacher):
        for head in (network.dino_head, network.ibot_head):
            # Centres and losses are f32.
            head.register_forward_hook(lambda _module, _inputs, outputs: outputs.float())
    kind = torch.device(options.device).type
    training.loss = torch.autocast(kind, torch.bfloat16)(training.loss)
    masks = torch.rand(rows, (size // patch) ** 2, generator=torch.Generator().manual_seed(0)) < 0.3
    masks[::2] = False
    weights = (1 / masks.sum(1, keepdim=True).clamp(min=1)).expand_as(masks)[masks]
    named = {"masks": masks, "mask_indices": masks.flatten().nonzero().flatten(), "masks_weight": weights}
    named = {name: tensor.to(options.device) for name, tensor in named.items()}
    return training, {"labels": range(options.batch_size), **named}


def train_step(training, masking, crops):
    training.train_step(SimpleNamespace(global_crops=crops[0], local_crops=crops[1], **masking))


def fit(options):
    """Halves the batch until a step fits into the GPU's memory; what it takes there, in GiB."""
    while True:
        try:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            training, masking = made_training(options)
            for _ in range(WARM_UP_STEPS):
                shapes = [(2, GLOBAL[0]), (LOCALS, LOCAL[0])]
                crops = [torch.randn(n * options.batch_size, 3, size, size, device=options.device) for n, size in shapes]
                train_step(training, masking, crops)
            return torch.cuda.max_memory_allocated() / 2**30 if masking["masks"].is_cuda else 0
        except torch.OutOfMemoryError:
            if options.batch_size == 1:
                raise
            options.batch_size //= 2
        training = masking = crops = None
        clean()


def clean():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def epoch(training, masking, crops, options, begin, end):
    """Seconds of waiting, the first one since `begin`, and of computing for each step; fewer steps where `end` comes before."""
    times = []
    for made in itertools.islice(crops, options.steps):
        if made[0].is_cuda:
            torch.cuda.synchronize()
        ready = time.perf_counter()
        train_step(training, masking, made)
        times.append((ready - begin, time.perf_counter() - ready))
        begin = time.perf_counter()
        if time.monotonic() > end:
            break
    if not times:
        raise RuntimeError("an epoch without a batch")
    return times


def row(name, number, times, busy, options):
    (first, _), rest = times[0], times[1:] or times
    waited, computed = (sum(step[part] for step in rest) for part in (0, 1))
    rate = len(rest) * options.batch_size / (waited + computed)
    steps = f"{len(times)} of {options.steps}" if len(times) < options.steps else str(len(times))
    share = 100 * waited / (waited + computed)
    print(f"| {name} | {number} | {steps} | {rate:.0f} | {busy} | {share:.1f} % | {first:.2f} |", flush=True)


def measure(name, samples, folder, options, end):
    begin = time.monotonic()
    training, masking = made_training(options)
    loader = LOADERS[name](samples, folder, options)
    try:
        for number in (1, 2):
            asked = time.perf_counter()
            crops = loader.epoch()
            until = begin + (end - begin) * number / 2
            with Busy(torch.device(options.device)) as busy:
                times = epoch(training, masking, crops, options, asked, until)
            row(name, number, times, busy, options)
            del crops
    finally:
        loader.close()


def main():
    options = parse()
    end = time.monotonic() + options.limit
    has_gpu = options.device != "cpu"
    if has_gpu and not torch.cuda.is_available():
        print("NOT RUN: this PyTorch has no GPU")
        sys.exit(77)
    if has_gpu:
        torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE)
    named = options.loaders or ("torch,dali,cpu,gpu" if has_gpu else "torch,cpu")
    peak_gib = fit(options)
    clean()
    samples = list(numbered(read_photos(options.photos), options.steps * options.batch_size))
    print(f"{torch.cuda.get_device_name() if has_gpu else 'the processor'}, PyTorch {torch.__version__}, {options.threads} threads;")
    print(f"batches of {options.batch_size}, {peak_gib:.0f} GiB of the GPU; {len(samples)} samples an epoch\n")
    print("| loader | epoch | steps | images/s | GPU busy | waiting | first batch, s |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    failed, names = [], named.split(",")
    with tempfile.TemporaryDirectory() as folder:
        write_shards(samples, Path(folder))
        for place, name in enumerate(names):
            now = time.monotonic()
            try:
                measure(name, samples, folder, options, now + (end - now) / (len(names) - place))
            except ImportError as missing:
                print(f"| {name} | NOT RUN: {missing} |", flush=True)
            except Exception as error:  # noqa: BLE001
                failed.append(name)
                print(f"| {name} | FAILED: {' '.join(str(error).split())} |", flush=True)
            clean()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
