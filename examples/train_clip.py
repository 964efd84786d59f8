"""Trains a tiny CLIP on images and their captions; stops and resumes bit for bit.

    python examples/train_clip.py tests/data/fields/fields.tar --tokenizer tests/data/fields/clip-tokenizer.json

Captions come as tokens, which workers make; see docs/fields.md. With services that run already, the workers'
`augment.tokenizers` names the tokenizer too.
"""

from pathlib import Path

import torch
from loading import arguments, classification, open_loader
from torch import nn
from torch.nn import functional as F


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--caption", default="txt", help="field of the caption")
    parser.add_argument("--length", type=int, default=16, help="tokens of a caption")
    parser.add_argument("--steps", type=int, default=60, help="step after which this run ends")
    parser.add_argument("--size", type=int, default=32, help="side of an image, in pixels")
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end, and to continue from if it exists")
    return parser.parse_args()


class Clip(nn.Module):
    """Three convolutions for images, the mean of embeddings for captions, one space for both."""

    def __init__(self, width=64, vocabulary=50_000):
        super().__init__()
        sides = [(3, width // 2), (width // 2, width), (width, width)]
        stages = [nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.ReLU()) for i, o in sides]
        self.image = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, width))
        self.word = nn.Embedding(vocabulary, width)
        self.text = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images, ids, mask):
        words = self.word(ids) * mask.unsqueeze(-1)
        texts = self.text(words.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))
        return self.scale.exp() * F.normalize(self.image(images), dim=1) @ F.normalize(texts, dim=1).T


def recipe(options):
    """An image and the tokens of its caption."""
    tokens = {
        "name": "ids",
        "kind": "tokens",
        "field": options.caption,
        "tokenizer": str(options.tokenizer.resolve()),
        "length": options.length,
    }
    return {**classification(options.size, train=True), "fields": [tokens]}


def loss_of(similarity):
    """Each image belongs to the caption of its own sample, and each caption to its image."""
    own = torch.arange(len(similarity))
    return (F.cross_entropy(similarity, own) + F.cross_entropy(similarity.T, own)) / 2


def main():
    options = parse()
    torch.manual_seed(options.seed)
    model = Clip()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step = 0
    with open_loader(options, options.data, recipe=recipe(options)) as loader:
        if options.checkpoint and options.checkpoint.exists():
            saved = torch.load(options.checkpoint)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(saved["loader"])
            step = saved["step"]
        while step < options.steps:
            for batch in loader:
                batch = batch.to("cpu")
                loss = loss_of(model(batch.images, batch.ids, batch.ids_mask))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"step {step:3}  loss {loss.item():.6f}", flush=True)
                step += 1
                if step >= options.steps:
                    break
        if options.checkpoint:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "step": step}
            torch.save(state, options.checkpoint)


if __name__ == "__main__":
    main()
