"""Makes masks.json beside this file: iBOT masks with the draws they were made from.

usage: python make_masks.py

Plain and slow, written from facebookresearch/dinov2's and dinov3's description of their masks and not from the
code under test: a mask is a set of cells here. Numbers that collate.py keeps in torch tensors are
kept in them here too, for their rounding. Made with torch 2.15.0, Python 3.11.
"""

import json
import math
import pathlib
import random

import torch


class Draws:
    """Python's generator, with a record of what it gave."""

    def __init__(self, seed):
        self.generator = random.Random(seed)
        self.record = []

    def unit(self):
        value = self.generator.random()
        self.record.append({"unit": value})
        return value

    def below(self, bound):
        value = self.generator.randrange(bound)
        self.record.append({"below": [bound, value]})
        return value

    def uniform(self, low, high):
        return low + (high - low) * self.unit()


def rectangle(covered, height, width, room, draws):
    """Cells that one more rectangle adds; none where ten tries failed."""
    for _ in range(10):
        area = draws.uniform(4, room)
        aspect = math.exp(draws.uniform(math.log(0.3), math.log(1 / 0.3)))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if w < width and h < height:
            top = draws.below(height - h + 1)
            left = draws.below(width - w + 1)
            cells = {(y, x) for y in range(top, top + h) for x in range(left, left + w)}
            if 0 < len(cells - covered) <= room:
                return cells - covered
    return set()


def mask(height, width, target, block_max, draws):
    covered = set()
    while len(covered) < target:
        added = rectangle(covered, height, width, min(target - len(covered), block_max), draws)
        if not added:
            break
        covered |= added
    return covered


def completed(covered, height, width, target, draws):
    """As many cells as there are to be: the rest one by one, of those that are not covered."""
    free = [(y, x) for y in range(height) for x in range(width) if (y, x) not in covered]
    for place in range(target - len(covered)):
        other = place + draws.below(len(free) - place)
        free[place], free[other] = free[other], free[place]
        covered = covered | {free[place]}
    return covered


def shifted(covered, height, width, draws):
    down, right = draws.below(height), draws.below(width)
    return {((y + down) % height, (x + right) % width) for y, x in covered}


def collated(case, draws):
    size, patch = (case["height"], case["width"]), case["patch"]
    height, width = size[0] // patch, size[1] // patch
    block_max = 0.5 * size[0] // patch * size[1] // patch
    rows, patches = case["views"] * case["samples"], height * width
    masked = int(rows * case["sample_probability"])
    ratios = torch.linspace(case["ratio_min"], case["ratio_max"], masked + 1)
    covered, upperbound = [], 0
    for least, greatest in zip(ratios[:-1], ratios[1:]):
        if case["style"] == "dinov3":
            target = int(patches * greatest)
        else:
            target = int(patches * draws.uniform(least, greatest))
        cells = mask(height, width, target, block_max, draws)
        if case["style"] == "dinov3":
            cells = completed(cells, height, width, target, draws)
        if case["random_circular_shift"]:
            cells = shifted(cells, height, width, draws)
        covered.append(cells)
        upperbound += int(patches * greatest)
    covered += [set()] * (rows - masked)
    for last in reversed(range(1, rows)):
        other = draws.below(last + 1)
        covered[last], covered[other] = covered[other], covered[last]
    in_list = [sorted(y * width + x for y, x in cells) for cells in covered]
    indices = [row * patches + cell for row, cells in enumerate(in_list) for cell in cells]
    weight = [float(torch.tensor(1.0) / len(cells)) for cells in in_list for _ in cells]
    return {"indices": indices, "weight": weight, "upperbound": upperbound}


def case(samples, size, patch, views=2, probability=0.5, ratios=(0.1, 0.5), style="dinov2", shift=False):
    return {
        "samples": samples,
        "views": views,
        "height": size[0],
        "width": size[1],
        "patch": patch,
        "sample_probability": probability,
        "ratio_min": ratios[0],
        "ratio_max": ratios[1],
        "style": style,
        "random_circular_shift": shift,
    }


CASES = [
    case(8, (224, 224), 14),
    case(7, (224, 224), 16),
    case(2, (256, 256), 16, probability=0.7),
    case(1, (518, 518), 14, ratios=(0.3, 0.9)),
    case(3, (96, 160), 16, views=1, probability=1.0, ratios=(0.0, 1.0)),
    case(4, (32, 32), 16),
    case(3, (16, 16), 16),
    case(1, (224, 224), 16, views=1),
    # 60 patches times torch's 0.3 are a little less than 18.
    case(12, (96, 160), 16),
    case(8, (256, 256), 16, style="dinov3"),
    case(5, (96, 160), 16, style="dinov3", shift=True),
    case(2, (96, 160), 16, probability=1.0, ratios=(0.0, 1.0), style="dinov3"),
    case(3, (224, 224), 16, shift=True),
]

if __name__ == "__main__":
    made = []
    for number, one in enumerate(CASES):
        draws = Draws(number)
        expected = collated(one, draws)
        made.append({**one, **expected, "draws": draws.record})
    path = pathlib.Path(__file__).parent / "masks.json"
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
