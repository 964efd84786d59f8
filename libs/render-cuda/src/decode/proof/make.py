#!/usr/bin/env python3
"""Makes the JPEGs of a GPU's proof, by Pillow (libjpeg-turbo): python3 libs/render-cuda/src/decode/proof/make.py

Restart markers after each row of MCUs are places at which decoding can begin; in the files `find-*.jpg` kernels have to
find some. The noise has coefficients with long codes, and samples beyond 0 and 255.
"""

import pathlib
import random

from PIL import Image

FOLDER = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 93, 50
SAMPLINGS = {"444": 0, "422": 1, "420": 2}


def picture():
    noise = random.Random(1)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            depth = 256 if x > 2 * y else 1 + y
            pixel = ((x * 7 + y * 3) % 256, (x * y) % 256, (noise.randrange(depth) + y * 5) % 256)
            image.putpixel((x, y), pixel)
    return image


def save(image, name, **options):
    image.save(FOLDER / f"{name}.jpg", **options, restart_marker_rows=1)
    image.save(FOLDER / f"find-{name}.jpg", **options)


for sampling, number in SAMPLINGS.items():
    save(picture(), sampling, quality=75, subsampling=number)
save(picture().convert("L"), "gray", quality=90)
