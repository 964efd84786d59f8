"""Makes sample.jpg: noise of all scales, as photographs have it. python sample.py, with Pillow."""

import random
from pathlib import Path

from PIL import Image

WIDTH, HEIGHT = 304, 208

random.seed(1)


def noise(step: int) -> Image.Image:
    """Noise whose grains have this side."""
    size = WIDTH // step + 1, HEIGHT // step + 1
    grains = bytes(random.randrange(256) for _ in range(size[0] * size[1]))
    image = Image.frombytes("L", size, grains)
    return image.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)


def channel(finest: int) -> Image.Image:
    """The mean of all scales from the finest one on, each with half the weight of the next."""
    image = Image.new("L", (WIDTH, HEIGHT), 128)
    for step in (1, 2, 4, 8, 16, 32):
        if step >= finest:
            image = Image.blend(image, noise(step), 0.5 if step > 1 else 0.4)
    return image


image = Image.merge("YCbCr", (channel(1), channel(4), channel(4))).convert("RGB")
image.save(Path(__file__).with_name("sample.jpg"), quality=90, subsampling=0)
