"""CPU time of one core to decode JPEG, progressive JPEG, PNG and WebP: `headwater.decode` and its peers in turns,
over photographs of a folder of tars, from the files' bytes to `u8[height, width, 3]` in memory.

usage: formats.py FOLDER [ROUNDS] [--every 10]
Started on one core by run.sh. The photographs' own files are the baseline JPEGs. Pillow makes the other formats of
them: progressive with the tables of the original, PNG and WebP with its defaults. CPU time counts, all threads of the
process together. A peer that is not installed is left out with a note. Prints Markdown.
"""

import argparse
import datetime
import importlib.metadata
import io
import pathlib
import statistics
import sys
import time

import numpy
from PIL import Image

from measure import cpu_model, read_photos

OURS = "headwater.decode"


def headwater_entry():
    import headwater

    return {form: lambda data: headwater.decode([data])[0].numpy() for form in MADE}


def pillow_entry():
    return {form: lambda data: numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for form in MADE}


def torchvision_entry():
    import torch
    from torchvision.io import ImageReadMode, decode_image

    torch.set_num_threads(1)

    def decoded(data):
        # Writable, because torch.frombuffer warns of anything else.
        raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return decode_image(raw, ImageReadMode.RGB).permute(1, 2, 0).numpy()

    return dict.fromkeys(MADE, decoded)


def simplejpeg_entry():
    import simplejpeg

    return dict.fromkeys(("JPEG", "progressive JPEG"), simplejpeg.decode_jpeg)


def torchcodec_entry():
    import torch
    from torchcodec._core import ops

    def by(decode):
        raw = lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return lambda data: decode(raw(data)).permute(1, 2, 0).numpy()

    jpeg = by(ops.decode_jpeg)
    return {"JPEG": jpeg, "progressive JPEG": jpeg, "PNG": by(ops.decode_png), **dict.fromkeys(("WebP", "lossless WebP"), by(ops.decode_webp))}


#: Each is called for the functions that decode each format, from bytes to an array.
ENTRIES = {
    OURS: headwater_entry,
    "Pillow": pillow_entry,
    "torchvision": torchvision_entry,
    "simplejpeg": simplejpeg_entry,
    "torchcodec": torchcodec_entry,
}

#: Each format from a photograph's own file.
MADE = {
    "JPEG": None,
    "progressive JPEG": {"format": "JPEG", "quality": "keep", "progressive": True},
    "PNG": {"format": "PNG"},
    "WebP": {"format": "WEBP"},
    "lossless WebP": {"format": "WEBP", "lossless": True},
}


def made(photo: bytes, options: "dict | None") -> bytes:
    if options is None:
        return photo
    image, to = Image.open(io.BytesIO(photo)), io.BytesIO()
    # Only the format that it was opened as lets Pillow keep the tables.
    (image if options["format"] == "JPEG" else image.convert("RGB")).save(to, **options)
    return to.getvalue()


def installed() -> dict:
    found = {}
    for name, entry in ENTRIES.items():
        try:
            found[name] = entry()
        except (ImportError, AttributeError, OSError) as error:
            print(f"left out {name}: {error}".splitlines()[0], file=sys.stderr)
    return found


def spent(decode, files) -> float:
    """CPU time of a file in ms."""
    before = time.process_time()
    for data in files:
        decode(data)
    return (time.process_time() - before) / len(files) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("rounds", type=int, nargs="?", default=7)
    parser.add_argument("--every", type=int, default=10, help="every which photograph is decoded")
    arguments = parser.parse_args()
    photos = [bytes(photo) for photo in read_photos(arguments.folder)[:: arguments.every]]
    files = {form: [made(photo, options) for photo in photos] for form, options in MADE.items()}
    entries = installed()
    times = {(form, name): [] for form in files for name, by in entries.items() if form in by}
    # The first round warms everything up and does not count.
    for number in range(arguments.rounds + 1):
        for form, name in times:
            found = spent(entries[name][form], files[form])
            if number > 0:
                times[form, name].append(found)
        print(f"round {number} of {arguments.rounds}", file=sys.stderr)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("Pillow", "torchvision"))
    print(f"{datetime.date.today()}, one core of {cpu_model()}, {versions};")
    print(f"{len(photos)} photos, medians of {arguments.rounds} alternating rounds of CPU time\n")
    print("| format | decoder | ms per image | spread | its time over headwater's | images with Pillow's pixels |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (form, name), values in times.items():
        median, ours = statistics.median(values), statistics.median(times[form, OURS])
        pairs = ((entries[name][form](data), entries["Pillow"][form](data)) for data in files[form])
        equal = sum(numpy.array_equal(found, expected) for found, expected in pairs)
        spread = 100 * (max(values) - min(values)) / median
        print(f"| {form} | {name} | {median:.3f} | {spread:.0f} % | {median / ours:.2f} | {equal} of {len(photos)} |")
    print("\nspread: most minus least over the median")


if __name__ == "__main__":
    main()
