"""Writes laws.json: twentieths of what torchvision, timm and NumPy draw, for the tests of our draws.

Run with numpy, torch and torchvision, the versions of which it writes down.
"""

import json
import math
import random
from pathlib import Path

import numpy as np
import torch
import torchvision
import torchvision.transforms as T

DRAWS = 200_000


def crops():
    width, height = 3100, 2900
    image = torch.empty(1).expand(3, height, width)
    for _ in range(DRAWS):
        top, left, h, w = T.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
        yield {"crop area": w * h / (width * height), "crop log ratio": math.log(w / h),
               "crop left": left / (width - w + 1), "crop top": top / (height - h + 1)}


def erased():
    width, height = 2000, 1500
    image = torch.empty(1).expand(3, height, width)
    for _ in range(DRAWS):
        top, left, h, w, _ = T.RandomErasing.get_params(image, (0.02, 0.33), (0.3, 3.3), [0.0])
        yield {"erased area": w * h / (width * height), "erased log ratio": math.log(h / w),
               "erased left": left / (width - w + 1), "erased top": top / (height - h + 1)}


def warps():
    for _ in range(DRAWS):
        yield {"rotation": T.RandomRotation.get_params([-30.0, 45.0])}
    for _ in range(DRAWS):
        _, (right, down), scale, _ = T.RandomAffine.get_params(
            [0.0, 0.0], [0.1, 0.3], [0.5, 2.0], None, [3000, 2000])
        yield {"scale": scale, "translation": right, "translation down": down}


def colours():
    for _ in range(DRAWS):
        _, brightness, _, _, hue = T.ColorJitter.get_params((0.6, 1.4), None, None, (-0.1, 0.2))
        yield {"brightness": brightness, "hue": hue}


def shares():
    rng = np.random.default_rng(3)
    for alpha in (0.4, 0.8, 1.0):
        for lam in rng.beta(alpha, alpha, DRAWS):
            yield {f"beta {alpha}": float(lam)}
    for weights in rng.dirichlet([1.0] * 3, DRAWS):
        yield {"dirichlet": float(weights[0])}
    for _ in range(DRAWS):
        yield {"timm level": random.gauss(5.0, 1.0)}


def main():
    torch.manual_seed(1)
    random.seed(2)
    drawn = {}
    for law in (crops, erased, warps, colours, shares):
        for values in law():
            for name, value in values.items():
                drawn.setdefault(name, []).append(float(value))
    twentieths = np.arange(1, 20) / 20
    laws = {name: [float(q) for q in np.quantile(values, twentieths)] for name, values in drawn.items()}
    versions = {m.__name__: m.__version__ for m in (np, torch, torchvision)}
    Path(__file__).with_name("laws.json").write_text(json.dumps({"versions": versions, "laws": laws}, indent=0) + "\n")


if __name__ == "__main__":
    main()
