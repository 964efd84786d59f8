"""Compares views of this project with those of torchvision and the Pillow that runs this script.

usage: compare.py PROGRAM FOLDER RECIPE RESIZE_PASSES SEEDS [EXP]

PROGRAM is the example `views` of libs/render, FOLDER has photographs (.jpg) or tar archives of them. The draws are the
program's; torchvision replays them. Prints rows of a Markdown table. With EXP = `rounded`, the weights of the blur are made
by a binary64 exponential, rounded, in place of `torch.exp`: what differs then does not differ because of that function.
"""

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "libs" / "render" / "tests" / "fixtures"))

from replay import distort, replay  # noqa: E402
from torchvision.transforms import _functional_tensor  # noqa: E402


def weights_by_rounded_exp(kernel_size, sigma, dtype, device):
    """`_get_gaussian_kernel1d` of torchvision but for the exponential."""
    half = (kernel_size - 1) * 0.5
    x = torch.linspace(-half, half, steps=kernel_size, dtype=dtype, device=device)
    density = torch.exp((-0.5 * (x / sigma).pow(2)).double()).to(dtype)
    return density / density.sum()


def photographs(folder, to):
    """Files of the folder; those of archives are written below `to`."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".tar":
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.name.endswith(".jpg"):
                        file = to / f"{path.stem}-{member.name.replace('/', '-')}"
                        file.write_bytes(archive.extractfile(member).read())
                        yield file
        elif path.suffix == ".jpg":
            yield path


def is_blurred(ops):
    return any(op["op"] == "gaussian_blur" for op in ops)


class Tally:
    """What was compared of one kind of views."""

    def __init__(self):
        self.views = self.views_apart = self.values = self.values_apart = self.levels = 0

    def add(self, ours, theirs):
        apart = np.abs(ours.astype(np.int16) - theirs.astype(np.int16))
        count = int(np.count_nonzero(apart))
        self.views += 1
        self.views_apart += count > 0
        self.values += apart.size
        self.values_apart += count
        self.levels = max(self.levels, int(apart.max()))

    def cells(self):
        equal = self.views - self.views_apart
        return f"{equal:,} of {self.views:,} | {self.values_apart:,} of {self.values:,} | {self.levels}"


def compare(stream, tallies):
    """One sample of the stream; false at its end."""
    line = stream.readline()
    if not line:
        return False
    draws = json.loads(line)
    image_ops, bases = draws.get("image_ops", []), draws.get("bases", [])
    with Image.open(draws["image"]) as file:
        image = distort(file.convert("RGB"), image_ops)
    cuts = [replay(image, base["view"], [base["height"], base["width"]]) for base in bases]
    for tensor in draws["tensors"]:
        size = [tensor["height"], tensor["width"]]
        for view in tensor["views"]:
            source, ops = (image, view["ops"])
            if "base" in view:
                source, ops = cuts[view["base"]], ops + bases[view["base"]]["view"]["ops"]
            theirs = np.asarray(replay(source, view, size)).transpose(2, 0, 1)
            ours = np.frombuffer(stream.read(theirs.size), np.uint8).reshape(theirs.shape)
            tallies[is_blurred(ops)].add(ours, theirs)
    return True


def main():
    program, folder, recipe, passes, seeds, *exp = sys.argv[1:]
    if exp == ["rounded"]:
        _functional_tensor._get_gaussian_kernel1d = weights_by_rounded_exp
    tallies = {False: Tally(), True: Tally()}
    with tempfile.TemporaryDirectory() as scratch:
        files = [str(file) for file in photographs(pathlib.Path(folder), pathlib.Path(scratch))]
        if not files:
            sys.exit(f"{folder} has neither .jpg files nor .tar files with such members")
        command = [program, recipe, passes, seeds, *files]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as views:
            stream = io.BufferedReader(views.stdout, 1 << 22)
            while compare(stream, tallies):
                pass
        if views.returncode:
            sys.exit(f"{program} ended with {views.returncode}")
    theirs = f"{torchvision.__version__.split('+')[0]}, {torch.__version__.split('+')[0]}, {PIL.__version__}"
    if exp:
        theirs += f", exp {exp[0]}"
    for blurred, tally in tallies.items():
        if tally.views:
            print(f"| `{recipe}` | `{passes}` | {theirs} | {'yes' if blurred else 'no'} | {tally.cells()} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
