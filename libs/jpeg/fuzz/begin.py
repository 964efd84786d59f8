#!/usr/bin/env python3
"""Makes the files that fuzzing begins with, by Pillow (libjpeg-turbo): python3 libs/jpeg/fuzz/begin.py

Each file is no entries, a window, and a JPEG, as `door.rs` reads it.
"""

import io
import pathlib
import random

from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "corpus" / "pixels"
HEAD = bytes([0, 60, 60, 128, 128])
SAMPLINGS = {"444": 0, "422": 1, "420": 2}


def picture(width, height, mode="RGB"):
    noise = random.Random(width * 1000 + height)
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            pixel = ((x * 7 + y * 3) % 256, (x * y) % 256, (noise.randrange(64) + y * 5) % 256)
            image.putpixel((x, y), pixel)
    return image.convert(mode)


def save(name, image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    (FOLDER / name).write_bytes(HEAD + file.getvalue())


for sampling, number in SAMPLINGS.items():
    save(f"begin_{sampling}", picture(40, 30), quality=75, subsampling=number)
    options = {"quality": 92, "subsampling": number, "optimize": True}
    save(f"begin_{sampling}_optimised", picture(33, 47), **options)
    for mcus in range(1, 10):
        options = {"quality": 60, "subsampling": number, "restart_marker_blocks": mcus}
        save(f"restarts_{sampling}_{mcus}", picture(50, 37), **options)
    # Large enough for guesses to fall into step.
    save(f"steps_{sampling}", picture(150, 140), quality=40, subsampling=number, optimize=True)
    options = {"quality": 80, "subsampling": number, "restart_marker_rows": 1}
    save(f"restarts_{sampling}_rows", picture(120, 50), **options)
save("begin_gray", picture(61, 20, "L"), quality=80)
save("begin_low", picture(64, 64), quality=3)
save("begin_high", picture(24, 24), quality=100, subsampling=0)
save("begin_progressive", picture(30, 30), progressive=True)
