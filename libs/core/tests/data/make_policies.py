"""Writes policies.json: magnitudes and matrices of torchvision and Pillow, for the tests of draws.

Run with torch and torchvision, the versions of which it writes down.
"""

import json
import math
import random
from pathlib import Path

import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode, RandAugment, TrivialAugmentWide, autoaugment
from torchvision.transforms import functional as F

NAMES = {"AutoContrast": "auto_contrast"}


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def spaces():
    """The magnitudes of each operation, of policies with so many bins, on views of a size."""
    out = []
    for wide, bins, height, width in [(0, 31, 224, 224), (0, 31, 176, 96), (0, 10, 224, 224), (1, 31, 9, 9), (0, 13, 37, 501)]:
        space = (
            TrivialAugmentWide(bins)._augmentation_space(bins)
            if wide
            else RandAugment(num_magnitude_bins=bins)._augmentation_space(bins, (height, width))
        )
        values = {snake(k): [float(x) for x in v] for k, (v, _) in space.items() if v.ndim}
        out.append({"wide": bool(wide), "bins": bins, "height": height, "width": width, "values": values})
    return out


class Caught(Exception):
    pass


def matrix_of(call, image):
    """What Pillow's `transform` is called with."""
    seen = {}

    def transform(self, size, method, data=None, *args, **kwargs):
        seen["data"] = [float(x) for x in data]
        raise Caught

    original, Image.Image.transform = Image.Image.transform, transform
    try:
        call(image)
    except Caught:
        return seen["data"]
    finally:
        Image.Image.transform = original
    return None


def matrices():
    rng = random.Random(7)
    out = []
    for width, height in [(224, 224), (176, 96), (33, 64)]:
        image = Image.new("RGB", (width, height))
        for name in ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"]:
            for _ in range(6):
                most = {"Shear": 0.99, "Trans": 150.0, "Rotat": 135.0}[name[:5]]
                value = rng.uniform(-most, most)
                found = matrix_of(
                    lambda i: autoaugment._apply_op(i, name, value, InterpolationMode.NEAREST, None), image
                )
                out.append({"op": snake(name), "value": value, "width": width, "height": height, "matrix": found})
        for degrees in torch.linspace(0.0, 135.0, 31)[1:].tolist() + [rng.uniform(-30, 30) for _ in range(20)]:
            found = matrix_of(lambda i: F.rotate(i, degrees), image)
            if found:
                out.append({"op": "rotate", "value": degrees, "width": width, "height": height, "matrix": found})
        for _ in range(4):
            degrees, scale = rng.uniform(-180, 180), rng.uniform(0.5, 2)
            translate = [rng.randint(-30, 30), rng.randint(-30, 30)]
            shear = [rng.uniform(-40, 40), rng.uniform(-40, 40)]
            found = matrix_of(lambda i: F.affine(i, degrees, translate, scale, shear), image)
            out.append({"op": "affine", "value": degrees, "translate": translate, "scale": scale, "shear": shear,
                        "width": width, "height": height, "matrix": found})
    return out


def perspectives():
    torch.manual_seed(5)
    out = []
    for width, height in [(224, 224), (65, 34)]:
        for distortion in [0.2, 0.5, 1.0]:
            start, end = torchvision.transforms.RandomPerspective.get_params(width, height, distortion)
            coefficients = F._get_perspective_coeffs(start, end)
            out.append({"width": width, "height": height, "ends": end, "coefficients": coefficients})
    return out


if __name__ == "__main__":
    versions = {m.__name__: m.__version__ for m in (torch, torchvision, PIL)}
    written = {"versions": versions, "spaces": spaces(), "matrices": matrices(), "perspectives": perspectives()}
    Path(__file__).with_name("policies.json").write_text(json.dumps(written) + "\n")
