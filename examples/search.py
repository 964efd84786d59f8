"""The shared code of the searches: one trial, a service on this host that counts its parts, and the plot of them.

All trials of a search have one seed and one recipe, so they ask for the same batches. A worker with `augment.share_bytes`
makes each part of them once.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import torch
from loading import arguments, classification, open_loader
from torch.optim.lr_scheduler import OneCycleLR
from train_supervised import accuracy, network, train

# A worker's counters: delivered parts, and those of them that it had made for another trial.
DELIVERED = re.compile(r'^headwater_augment_parts_total\{[^}]*outcome="done"[^}]*\} (\S+)$', re.MULTILINE)
SHARED = re.compile(r"^headwater_augment_share_parts_shared_total\{[^}]*\} (\S+)$", re.MULTILINE)


def parser(description):
    """Options of every search."""
    parsed = arguments(description)
    parsed.add_argument("--validation", required=True, help="validation data, in the form of the training data")
    parsed.add_argument("--classes", type=int, required=True, help="number of classes")
    parsed.add_argument("--epochs", type=int, default=8, help="maximum epochs of a trial")
    parsed.add_argument("--size", type=int, default=48, help="side of an image, in pixels")
    parsed.add_argument("--trials", default="1,2,4,8", help="numbers of trials; a search with each of them")
    parsed.add_argument("--at-once", type=int, default=4, help="maximum trials at the same time")
    parsed.add_argument("--share-bytes", type=int, default=1 << 30, help="augment.share_bytes of the worker; 0: off")
    parsed.add_argument("--plot", help="file for a plot of parts over the number of trials, .png or .svg")
    return parsed


def of_search(options, trials):
    """Options of a search with `trials` trials: a separate seed, so it finds no parts of an earlier search."""
    return argparse.Namespace(**{**vars(options), "seed": options.seed + trials})


def train_trial(options, chosen, report, **place):
    """Trains with the settings `chosen`, and calls `report(epoch, accuracy)` after each epoch, which may end it.

    `place` may be `ray=NAME`, a service on Ray.
    """
    torch.manual_seed(options.seed)
    model = network(options.classes, chosen["width"])
    training = open_loader(options, options.data, recipe=classification(options.size, train=True), **place)
    place.update(recipe=classification(options.size, train=False), epoch_end="short_last")
    validation = open_loader(options, options.validation, **place)
    with training, validation:
        rate, steps = chosen["learning_rate"], options.epochs * len(training)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=chosen["weight_decay"])
        schedule = OneCycleLR(optimizer, rate, total_steps=steps)
        right = 0.0
        for epoch in training.epochs(options.epochs):
            train(model, optimizer, schedule, training, "cpu")
            right = accuracy(model, validation, "cpu")
            report(epoch, right)
    return right


@contextlib.contextmanager
def service(options):
    """A storage node and a worker on this host, while the block runs. The options then point to them.

    Gives the address at which the worker counts. Their output goes to standard error.
    """
    with contextlib.ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory())
        data = [f"training={Path(options.data).absolute()}", f"validation={Path(options.validation).absolute()}"]
        named = [word for one in data for word in ("--dataset", one)]
        said = running.enter_context(process("storage", "--index-dir", folder, *named))
        storage = said["listening"]
        sharing = ["--set", f"augment.share_bytes={options.share_bytes}"] if options.share_bytes else []
        said = running.enter_context(process("augment", "--storage", storage, *sharing))
        options.storage, options.workers = storage, said["listening"]
        options.data, options.validation = "training", "validation"
        yield said["metrics"]


@contextlib.contextmanager
def process(verb, *more):
    """Runs the program `headwater`; yields the addresses that it prints when it listens. It ends with the block."""
    beside = Path(sys.executable).with_name("headwater")
    program = os.environ.get("HEADWATER_PROGRAM") or (beside if beside.exists() else shutil.which("headwater"))
    here = ["--listen", "127.0.0.1:0", "--set", "telemetry.metrics_listen=127.0.0.1:0", "--log", "warn"]
    command = [program, "--die-with", str(os.getpid()), verb, *here, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            said = {}
            while "listening" not in said:
                line = started.stdout.readline()
                if not line:
                    sys.exit(f"headwater {verb} has ended; it says why above")
                what, _, address = line.strip().partition(" on ")
                said[what] = address
            yield said
        finally:
            started.terminate()


def parts(addresses):
    """Parts that workers have computed and delivered so far; addresses of their /metrics."""
    delivered = shared = 0
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        delivered += sum(int(float(number)) for number in DELIVERED.findall(text))
        shared += sum(int(float(number)) for number in SHARED.findall(text))
    return delivered - shared, delivered


class Counts:
    """Parts computed and delivered, by number of trials."""

    def __init__(self, addresses):
        self.addresses, self.rows = addresses, []
        self.before = parts(addresses)

    def add(self, trials, stopped, best):
        """Prints the cost of a search, and keeps it for the plot."""
        now = parts(self.addresses)
        computed, delivered = (after - before for after, before in zip(now, self.before))
        self.before = now
        self.rows.append((trials, computed, delivered))
        print(
            f"trials {trials:2}  stopped early {stopped:2}  best accuracy {best:.3f}  "
            f"parts computed {computed:5}  delivered {delivered:5}",
            flush=True,
        )

    def plot(self, path):
        """Draws the parts over the number of trials."""
        from matplotlib import pyplot

        trials, computed, delivered = zip(*self.rows)
        figure, axes = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
        axes.plot(trials, delivered, "o-", label="delivered")
        axes.plot(trials, computed, "s-", label="computed")
        axes.set(xlabel="trials", ylabel="parts", ylim=(0, None), xticks=trials)
        axes.legend()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
