"""A Python function in the recipe, beside PyTorch's DataLoader with as many processes that calls the same function.

    python benches/own_python.py 'photos-*.tar' [--workers 2] [--rounds 5] [--batches 40]

Views of 224 x 224: decode, random resized crop, flip, function, batches of 32 in uint8. The DataLoader decodes and resizes
with Pillow, as torchvision does. Headwater's services run in a process of their own (`Loader(data)`). Functions:
`nothing` returns what it is given; `five_ms` computes for 5 ms. The ways are measured in turns. A round's rate is taken
after 5 batches, so that starting does not count.
"""

import argparse
import glob
import io
import statistics
import sys
import tarfile
import time
from pathlib import Path

BATCH = 32
SIDE = 224
FUNCTIONS = ("nothing", "five_ms")
WARM_BATCHES = 5


def nothing(array, rng):
    return array


def five_ms(array, rng):
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end:
        pass
    return array


def encoded(pattern):
    images = []
    for shard in sorted(glob.glob(pattern)):
        with tarfile.open(shard) as archive:
            members = (member for member in archive if member.name.endswith(".jpg"))
            images += [archive.extractfile(member).read() for member in members]
    return images


class Photos:
    def __init__(self, images, function):
        self.images, self.function = images, function

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        import numpy
        from PIL import Image

        rng = numpy.random.default_rng(index)
        image = Image.open(io.BytesIO(self.images[index % len(self.images)])).convert("RGB")
        side = int((rng.uniform(0.08, 1) * image.width * image.height) ** 0.5)
        width, height = min(side, image.width), min(side, image.height)
        left, top = rng.integers(image.width - width + 1), rng.integers(image.height - height + 1)
        box = (left, top, left + width, top + height)
        view = image.crop(box).resize((SIDE, SIDE), Image.BICUBIC)
        if rng.random() < 0.5:
            view = view.transpose(Image.FLIP_LEFT_RIGHT)
        array = numpy.array(view)
        if self.function:
            array = self.function(array, rng)
        return numpy.ascontiguousarray(array.transpose(2, 0, 1))


def rate(batches, count):
    """Images a second over `count` batches, after the first ones."""
    for _ in range(WARM_BATCHES):
        next(batches)
    started = time.perf_counter()
    for _ in range(count):
        next(batches)
    return count * BATCH / (time.perf_counter() - started)


def dataloader(options, function, images):
    from torch.utils.data import DataLoader

    dataset = Photos(images, globals().get(function))
    return rate(iter(DataLoader(dataset, batch_size=BATCH, num_workers=options.workers)), options.batches)


def loader(options, function, _):
    import headwater

    ops = [{"op": "flip", "p": 0.5}]
    if function:
        ops.append({"op": "python", "p": 1.0, "function": f"own_python:{function}"})
    crop = {"kind": "random_resized", "scale": [0.08, 1.0], "ratio": [1.0, 1.0]}
    tensor = {"name": "images", "dtype": "u8", "height": SIDE, "width": SIDE, "views": [{"crop": crop, "ops": ops}]}
    given = {"recipe": {"tensors": [tensor]}, "batch_size": BATCH, "augment_threads": options.workers}
    with headwater.Loader(options.photos, **given) as opened:

        def batches():
            while True:
                yield from opened

        return rate(batches(), options.batches)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=40)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    images = encoded(options.photos)
    ways = [(dataloader, function) for function in (None, *FUNCTIONS)]
    ways += [(loader, function) for function in (None, *FUNCTIONS)]
    rates = {way: [] for way in ways}
    for round_number in range(options.rounds):
        for way, function in ways:
            found = way(options, function, images)
            rates[way, function].append(found)
            print(f"round {round_number}: {way.__name__} {function}: {found:.0f} images/s", flush=True)
    print(f"\n| function | DataLoader, images/s | Headwater, images/s | ratio | of native |\n|{'---|' * 5}")
    native = statistics.median(rates[loader, None])
    for function in (None, *FUNCTIONS):
        theirs, ours = (statistics.median(rates[way, function]) for way in (dataloader, loader))
        print(f"| {function or 'none'} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} | {ours / native:.2f} |")


if __name__ == "__main__":
    main()
