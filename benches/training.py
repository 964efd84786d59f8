"""The same training with two loaders in turns: PyTorch's DataLoader with torchvision on Pillow images, and Headwater.

usage: training.py [OPTIONS] TARS [--plot FILE.svg]

Both give the batches of `imagenet-train`: a random resized crop to 224, bicubic, and a flip. Rounds of both take turns;
each round trains a new model of the same seed. The time of a step is split into waiting for the batch and
computing with it. The table is Markdown.
"""

import argparse
import glob
import io
import itertools
import statistics
import tarfile
import time

import headwater
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_UP_STEPS = 4


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tars", help="pattern of WebDataset tars with .jpg and .cls; what --storage serves as `photos`")
    parser.add_argument("--storage", help="address of a running storage node; without it, the loader starts one")
    parser.add_argument("--workers", help="address of a running worker with as many threads as --threads")
    parser.add_argument("--threads", type=int, default=1, help="processes of the DataLoader, threads of the worker")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each")
    parser.add_argument("--classes", type=int, default=87)
    parser.add_argument("--width", type=int, default=16, help="channels of the model's first layer")
    parser.add_argument("--plot", help="file of the plot, .svg or .png")
    return parser.parse_args()


class Photos(Dataset):
    """Encoded photographs in memory, decoded and augmented as torchvision does it."""

    def __init__(self, pattern):
        self.samples = [sample for path in sorted(glob.glob(pattern)) for sample in read(path)]
        self.augment = transforms.Compose([
            transforms.RandomResizedCrop(224, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ])  # fmt: skip

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        encoded, label = self.samples[index]
        return self.augment(Image.open(io.BytesIO(encoded)).convert("RGB")), label


def read(path):
    """Images and labels of a tar."""
    samples = {}
    with tarfile.open(path) as members:
        for member in members:
            key, field = member.name.split(".", 1)
            samples.setdefault(key, {})[field] = members.extractfile(member).read()
    return [(sample["jpg"], int(sample["cls"])) for sample in samples.values()]


def without_end(epochs):
    while True:
        yield from epochs


def dataloader(options):
    loader = DataLoader(
        Photos(options.tars),
        options.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=options.threads,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(0),
        # A worker has as many batches ahead as a loader here has in all.
        prefetch_factor=4,
    )
    return without_end(loader)


def ours(options):
    settings = {"recipe": "imagenet-train", "dtype": "f32", "batch_size": options.batch_size}
    if options.storage:
        settings.update(storage=options.storage, workers=options.workers, datasets="photos")
    else:
        settings.update(data=options.tars, augment_threads=options.threads)
    for batch in without_end(headwater.Loader(**settings)):
        yield batch.images.torch(), batch.labels.torch()


def network(classes, width):
    def stage(inputs, outputs, stride):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )

    stages = [stage(3, width, 4), stage(width, 2 * width, 2), stage(2 * width, 4 * width, 2)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


def train(batches, options):
    """A round: for each step the seconds of waiting and of computing, and the loss."""
    torch.manual_seed(0)
    model = network(options.classes, options.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    lines = []
    begin = time.perf_counter()
    for images, labels in itertools.islice(batches, WARM_UP_STEPS + options.steps):
        ready = time.perf_counter()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        lines.append((ready - begin, end - ready, loss.item()))
        begin = end
    return lines[WARM_UP_STEPS:]


def main():
    options = parse()
    torch.set_num_threads(1)
    loaders = {"DataLoader, torchvision": dataloader(options), "Headwater": ours(options)}
    rounds = {name: [] for name in loaders}
    for _ in range(options.rounds):
        for name, batches in loaders.items():
            rounds[name].append(train(batches, options))
    print("| loader | step, ms | of these waiting, ms | computing, ms | samples/s | final loss |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, of_loader in rounds.items():
        print(row(name, of_loader, options.batch_size))
    if options.plot:
        plot(rounds, options.plot)


def row(name, of_loader, samples):
    """Medians of the rounds' means; final losses are means of a round's last quarter."""

    def median(of_round):
        return statistics.median(of_round(lines) for lines in of_loader)

    waiting = median(lambda lines: statistics.mean(line[0] for line in lines))
    computing = median(lambda lines: statistics.mean(line[1] for line in lines))
    step = median(lambda lines: statistics.mean(line[0] + line[1] for line in lines))
    loss = median(lambda lines: statistics.mean(line[2] for line in lines[-len(lines) // 4 :]))
    times = " | ".join(f"{1000 * seconds:.1f}" for seconds in (step, waiting, computing))
    return f"| {name} | {times} | {samples / step:.0f} | {loss:.2f} |"


def plot(rounds, path):
    from matplotlib import pyplot

    figure, (times, losses) = pyplot.subplots(1, 2, figsize=(10, 3.5))
    for place, (name, of_loader) in enumerate(rounds.items()):
        steps = [line for lines in of_loader for line in lines]
        waiting, computing = (1000 * statistics.mean(line[part] for line in steps) for part in (0, 1))
        times.barh(place, computing, color="tab:green", label=None if place else "computing")
        times.barh(place, waiting, left=computing, color="tab:red", label=None if place else "waiting")
        first = of_loader[0]
        clock = list(itertools.accumulate(line[0] + line[1] for line in first))
        losses.plot(clock, [line[2] for line in first], label=name)
    times.set_yticks(range(len(rounds)), list(rounds))
    times.set_xlabel("ms a step, mean of all rounds")
    losses.set_xlabel("seconds, first round")
    losses.set_ylabel("loss")
    for axes in (times, losses):
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    main()
