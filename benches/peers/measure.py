"""Images per second of one core for decode alone and for the whole `dinov2` recipe: this project and
its peers in turns, over the JPEG files of a folder of tars.

usage: measure.py OURS FOLDER [ROUNDS]
OURS is the bench `rounds` of libs/render. Started on one core by run.sh. CPU time counts, all threads
of a process together, so that what else runs on the machine is left out as far as it can be.
"""

import argparse
import datetime
import pathlib
import statistics
import subprocess
import sys
import tarfile
import time

JOBS = ("decode", "recipe")


def read_photos(folder):
    photos = []
    for tar in sorted(pathlib.Path(folder).glob("*.tar")):
        with tarfile.open(tar) as members:
            for member in members:
                if member.name.endswith(".jpg"):
                    # Writable, because torch.frombuffer warns of anything else.
                    photos.append(bytearray(members.extractfile(member).read()))
    if not photos:
        sys.exit(f"no .jpg member in {folder}/*.tar")
    return photos


class Ours:
    """headwater"""

    jobs = JOBS

    def __init__(self, program, folder, *arguments):
        pipe = subprocess.PIPE
        environment = {"HEADWATER_BENCH_PHOTOS": str(folder)}
        self.process = subprocess.Popen(
            [program, *arguments], stdin=pipe, stdout=pipe, text=True, env=environment
        )
        count, self.simd = self.process.stdout.readline().split()
        self.count = int(count)

    def ask(self, job):
        self.process.stdin.write(job + "\n")
        self.process.stdin.flush()
        assert int(self.process.stdout.readline()) == self.count

    def decode(self, _):
        self.ask("decode")

    def recipe(self, _):
        self.ask("dinov2")

    def cpu_seconds(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Turbo:
    """libjpeg-turbo itself, in the process of headwater: it has no recipe."""

    jobs = ("decode",)

    def __init__(self, ours):
        self.ask, self.cpu_seconds = ours.ask, ours.cpu_seconds

    def decode(self, _):
        self.ask("turbo")


class Loaded:
    """A peer that runs in this process."""

    jobs = JOBS

    def __init__(self, peer):
        self.decode, self.recipe = peer.decode, peer.recipe

    @staticmethod
    def cpu_seconds():
        return time.process_time()


def contenders(ours, folder):
    """Name -> contender; a peer that cannot be loaded is left out with a note."""
    known, unknown = Ours(ours, folder, "entries"), Ours(ours, folder)
    found = {"headwater": known, "headwater, no entry points": unknown}
    found["libjpeg-turbo"] = Turbo(unknown)

    def add(name, module, kind):
        try:
            found[name] = Loaded(getattr(__import__(module), kind)())
        except Exception as error:  # noqa: BLE001
            print(f"left out {name}: {error}", file=sys.stderr)

    add("torchvision + Pillow", "recipes_torch", "Pillow")
    add("torchvision v2, tensors", "recipes_torch", "Tensors")
    add("DALI, CPU", "recipes_dali", "Dali")
    add("albumentations + OpenCV", "recipes_opencv", "OpenCv")
    return found


def cpu_model():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("rounds", type=int, nargs="?", default=7)
    arguments = parser.parse_args()
    photos = read_photos(arguments.folder)
    peers = contenders(arguments.ours, arguments.folder)
    assert peers["headwater"].count == len(photos)
    rates = {(name, job): [] for name, peer in peers.items() for job in peer.jobs}
    # The first round warms everything up and does not count.
    for round_ in range(arguments.rounds + 1):
        for name, peer in peers.items():
            for job in peer.jobs:
                before = peer.cpu_seconds()
                getattr(peer, job)(photos)
                spent = peer.cpu_seconds() - before
                if round_ > 0:
                    rates[name, job].append(len(photos) / spent)
        print(f"round {round_} of {arguments.rounds}", file=sys.stderr)
    report(peers, rates, len(photos), arguments.rounds)


def report(peers, rates, photos, rounds):
    medians = {key: statistics.median(values) for key, values in rates.items()}
    spreads = {key: (max(values) - min(values)) / medians[key] for key, values in rates.items()}
    print(f"{datetime.date.today()}, one core of {cpu_model()}, {peers['headwater'].simd};")
    print(f"{photos} photos, medians of {rounds} interleaved rounds of CPU time\n")
    print("| system | decode, images/s | headwater is faster by | `dinov2`, images/s | headwater is faster by |")
    print("| --- | --- | --- | --- | --- |")
    for name, peer in peers.items():
        cells = [name]
        for job in JOBS:
            if job not in peer.jobs:
                cells += ["", ""]
                continue
            rate, ratio = medians[name, job], medians["headwater", job] / medians[name, job]
            cells.append(f"{rate:.1f} ({100 * spreads[name, job]:.0f} %)")
            cells.append("" if name == "headwater" else f"{ratio:.2f} x")
        print("| " + " | ".join(cells) + " |")
    for name in ("headwater", "headwater, no entry points"):
        ratio = medians["libjpeg-turbo", "decode"] / medians[name, "recipe"]
        print(f"\n{name}: the recipe takes {ratio:.2f} times as long as libjpeg-turbo's bare decode")
    print("in brackets: spread of the rounds, most minus least over the median")


if __name__ == "__main__":
    main()
