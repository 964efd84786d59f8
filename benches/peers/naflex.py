"""timm's `create_naflex_loader` beside Headwater's over the same photographs: equal validation, samples a core in training.

    pip install --no-deps timm==1.0.30 && pip install torch torchvision pillow pyyaml safetensors huggingface_hub
    python benches/peers/naflex.py FOLDER_OF_CLASSES [ROUNDS]

Writes Markdown to standard output. Both sides run in this process, without worker processes, in turns, and take their time from the
processor's: a sample's is that of all threads. Each round opens both anew, so that a first epoch is a first epoch; the page cache is filled
before.
"""

from __future__ import annotations

import pathlib
import resource
import statistics
import sys

import torch
from headwater.integrations.timm import create_naflex_loader
from timm.data import ImageDataset
from timm.data.naflex_loader import create_naflex_loader as timms

SETTINGS = {
    "patch_size": 16,
    "train_seq_lens": (128, 256, 576, 784, 1024),
    "batch_size": 16,
    "is_training": True,
    "color_jitter": None,
    "interpolation": "bicubic",
    "use_prefetcher": False,
    "device": "cpu",
}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def equal(folder):
    """Compares a validation with timm's, in every value."""
    settings = {"patch_size": 16, "max_seq_len": 256, "batch_size": 32, "interpolation": "bicubic", "use_prefetcher": False, "device": "cpu"}
    theirs = timms(ImageDataset(folder), **settings, num_workers=0)
    ours = create_naflex_loader(folder, **settings, num_workers=1, embedded="threads")
    compared = apart = 0
    for (mine, labels), (upstream, targets) in zip(ours, theirs, strict=True):
        assert torch.equal(labels, targets)
        for name in ("patch_coord", "patch_valid"):
            assert torch.equal(mine[name], upstream[name]), name
        apart = max(apart, float((mine["patches"] - upstream["patches"]).abs().max()))
        compared += len(labels)
    ours.close()
    print(f"Validation: {compared} photographs, the same places, validity and labels; values differ by {apart:.1e} at most.\n")


def samples_a_second(loader, epochs):
    """Samples of whole epochs by a second of one core; one for each epoch."""
    found = []
    for _ in range(epochs):
        begin, samples = cpu_seconds(), 0
        for _, target in loader:
            samples += len(target)
        found.append(samples / (cpu_seconds() - begin))
    return found


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            path.read_bytes()
    equal(folder)
    rates = {"timm": [], "first": [], "second": []}
    for _ in range(rounds):
        theirs = timms(ImageDataset(folder), **SETTINGS, num_workers=0)
        rates["timm"] += samples_a_second(theirs, 1)
        ours = create_naflex_loader(folder, **SETTINGS, num_workers=1, embedded="threads")
        first, second = samples_a_second(ours, 2)
        rates["first"].append(first)
        rates["second"].append(second)
        ours.close()
    print("| loader | samples/s on one core | beside timm |")
    print("| --- | --- | --- |")
    names = {"timm": "timm 1.0.30", "first": "Headwater, first epoch", "second": "Headwater, second epoch"}
    for key, name in names.items():
        ratios = [mine / theirs for mine, theirs in zip(rates[key], rates["timm"])]
        middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
        print(f"| {name} | {statistics.median(rates[key]):.0f} | {middle:.2f} ({least:.2f} to {most:.2f}) |")


if __name__ == "__main__":
    main()
