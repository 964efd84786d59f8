"""Makes mask_hits.json beside this file: how often each patch is masked by the released code of DINOv2 and DINOv3.

usage: python make_mask_hits.py DINOV2 DINOV3

The arguments are checkouts of facebookresearch/dinov2 and facebookresearch/dinov3. Their own collate function makes
the masks of 6,250 batches of 16 samples, 100,000 masks that are not empty, with the defaults of their configurations and
global crops of 256 pixels in patches of 16. Made with dinov2 b8931f7, dinov3 6876159, torch 2.15.0, NumPy 2.4.6.
"""

import importlib.util
import json
import pathlib
import random
import sys

import numpy
import torch

SIDE, BATCHES, SAMPLES = 16, 6250, 16


def module(checkout, package, name):
    """A file of the checkout, without the package around it."""
    path = pathlib.Path(checkout) / package / "data" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{package}_{name}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def hits(checkout, package):
    random.seed(0)
    numpy.random.seed(0)
    generator = module(checkout, package, "masking").MaskingGenerator(
        input_size=(SIDE, SIDE), max_num_patches=0.5 * SIDE * SIDE
    )
    collate = module(checkout, package, "collate").collate_data_and_cast
    views = {"global_crops": [torch.zeros(1)] * 2, "local_crops": [torch.zeros(1)]}
    samples = [(views, ())] * SAMPLES
    cells = torch.zeros(SIDE * SIDE, dtype=torch.int64)
    masks, pairs, masked, upperbound = 0, 0, [], 0
    for _ in range(BATCHES):
        batch = collate(
            samples,
            mask_ratio_tuple=(0.1, 0.5),
            mask_probability=0.5,
            dtype=torch.float32,
            n_tokens=SIDE * SIDE,
            mask_generator=generator,
        )
        of_batch = batch["collated_masks"]
        cells += of_batch.sum(0)
        masks += int(of_batch.any(1).sum())
        grid = of_batch.unflatten(1, (SIDE, SIDE))
        pairs += int((grid[:, :, 1:] & grid[:, :, :-1]).sum())
        masked.append(int(of_batch.sum()))
        upperbound = batch["upperbound"]
    mean = sum(masked) / BATCHES
    print(f"{package}: {masks} masks, {mean} patches of a batch, {min(masked)} to {max(masked)}")
    return {
        "masks": masks,
        "masked": sum(masked),
        "masked_of_batch": [min(masked), max(masked)],
        "upperbound": upperbound,
        "pairs": pairs,
        "cells": cells.tolist(),
    }


if __name__ == "__main__":
    made = {package: hits(path, package) for package, path in zip(("dinov2", "dinov3"), sys.argv[1:])}
    path = pathlib.Path(__file__).parent / "mask_hits.json"
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
