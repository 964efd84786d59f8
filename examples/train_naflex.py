"""Trains a small vision transformer on images of any size and aspect ratio, as sequences of patches; stops and resumes bit for bit.

    python examples/train_naflex.py 'tests/data/photos/*.tar' --classes 87

Each batch has one of three lengths, and as many samples as fit its tokens; see docs/naflex.md.
"""

from pathlib import Path

import torch
from loading import arguments, open_loader
from torch import nn
from torch.nn import functional as F

PATCH, LENGTHS = 16, [96, 48, 24]


def parse():
    parser = arguments(__doc__)
    parser.set_defaults(batch_size=8)
    parser.add_argument("--classes", type=int, default=16, help="labels go from 0 to this number")
    parser.add_argument("--steps", type=int, default=200, help="step after which this run ends")
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end, and to continue from if it exists")
    return parser.parse_args()


def recipe():
    """Random crops of the image's own aspect ratio, more or less, and flips."""
    crop = {"kind": "random_resized_sequence", "scale": [0.3, 1.0], "ratio": [0.8, 1.25]}
    view = {"crop": crop, "ops": [{"op": "flip", "p": 0.5}]}
    tensor = {"name": "patches", "dtype": "f32", "patch_size": PATCH, "sequence_lengths": LENGTHS, "batch_divisor": 4, "views": [view]}
    return {"preset": "custom", "tensors": [tensor]}


class Transformer(nn.Module):
    """Two layers of attention among the patches of an image, and the mean of these."""

    def __init__(self, classes, width=64):
        super().__init__()
        self.embed = nn.Linear(3 * PATCH * PATCH, width)
        layers = [nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True) for _ in range(2)]
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(width, classes)
        self.register_buffer("rates", 0.5 ** torch.arange(width // 4), persistent=False)

    def forward(self, patches, coord, valid):
        angles = coord[..., None] * self.rates
        places = torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(2)
        found = self.embed(patches) + places
        for layer in self.layers:
            found = layer(found, src_key_padding_mask=~valid)
        weights = valid[..., None].float()
        return self.head((found * weights).sum(1) / weights.sum(1))


def main():
    options = parse()
    torch.manual_seed(options.seed)
    model = Transformer(options.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = open_loader(options, options.data, recipe=recipe())
    step = 0
    if options.checkpoint and options.checkpoint.exists():
        saved = torch.load(options.checkpoint)
        step = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    while step < options.steps:
        for batch in loader:
            tensors = batch.torch()
            found = model(tensors["patches"], tensors["patches_coord"], tensors["patches_valid"])
            loss = F.cross_entropy(found, tensors["labels"] % options.classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            samples, length = tensors["patches"].shape[:2]
            print(f"step {step:3}  {samples:3} sequences of {length:2}  loss {loss.item():.6f}", flush=True)
            step += 1
            if step == options.steps:
                break
    if options.checkpoint:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "step": step}
        torch.save(state, options.checkpoint)
    loader.close()


if __name__ == "__main__":
    main()
