"""Makes patches.json beside this file: blocks of I-JEPA's own `MaskCollator`, with the draws they were made from.

usage: python make_patches.py MULTIBLOCK_PY
The argument is `src/masks/multiblock.py` of facebookresearch/ijepa, 52c1ae95d05f743e000e8f10a1f3a79b10cff048, whose
random numbers are recorded. Made with torch 2.15.0, Python 3.11.
"""

import json
import pathlib
import sys

import torch

CASES = [
    {"patch": 16},
    {"patch": 14, "enc_mask_scale": [0.3, 0.5], "num_pred_masks": 6, "pred_mask_scale": [0.3, 0.4]},
    {"patch": 32, "num_enc_masks": 2, "num_pred_masks": 2, "min_keep": 3},
    {"patch": 28, "allow_overlap": True, "aspect_ratio": [0.3, 3.0], "pred_mask_scale": [0.2, 0.8]},
]


def main():
    scope = {}
    exec(compile(pathlib.Path(sys.argv[1]).read_text(), "multiblock.py", "exec"), scope)
    torch.manual_seed(11)
    record = []
    rand, randint = torch.rand, torch.randint

    def recorded_rand(*args, **kwargs):
        value = rand(*args, dtype=torch.float64, **kwargs)
        record.append({"unit": value.item()})
        return value

    def recorded_randint(low, high, shape, **kwargs):
        value = randint(low, high, shape, **kwargs)
        record.append({"below": value.item(), "bound": high})
        return value

    torch.rand, torch.randint = recorded_rand, recorded_randint
    written = []
    for case in CASES:
        names = {"num_enc_masks": "nenc", "num_pred_masks": "npred", "patch": "patch_size"}
        defaults = {"enc_mask_scale": [0.85, 1.0], "pred_mask_scale": [0.15, 0.2], "aspect_ratio": [0.75, 1.5],
                    "num_enc_masks": 1, "num_pred_masks": 4, "min_keep": 10}
        options = {names.get(key, key): value for key, value in {**defaults, **case}.items()}
        collator = scope["MaskCollator"](input_size=(224, 224), **options)
        for samples in (1, 3):
            record.clear()
            _, enc, pred = collator([torch.zeros(1)] * samples)
            lists = {"masks_enc": enc, "masks_pred": pred}
            tensors = {name: [m.tolist() for m in masks] for name, masks in lists.items()}
            written.append({"spec": case, "samples": samples, "draws": list(record), **tensors})
    lines = ",\n".join(json.dumps(case) for case in written)
    pathlib.Path(__file__).with_name("patches.json").write_text(f"[\n{lines}\n]\n")


main()
