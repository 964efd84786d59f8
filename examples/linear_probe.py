"""Measures a backbone of train_dinov2.py: trains a linear layer on its features, which do not change.

    python examples/linear_probe.py out/dino.pt 'tests/data/photos/photos-00000[0-2].tar' \\
        --validation tests/data/photos/photos-000003.tar --classes 87
"""

import torch
from loading import arguments, classification, open_loader
from torch import nn
from torch.nn import functional as F
from vision_transformer import VisionTransformer


def parse():
    parser = arguments(__doc__, checkpoint="checkpoint of train_dinov2.py")
    parser.add_argument("--validation", required=True, help="validation data, in the form of the training data")
    parser.add_argument("--classes", type=int, required=True, help="number of classes")
    parser.add_argument("--steps", type=int, default=100, help="steps of the linear layer")
    return parser.parse_args()


def backbone_of(checkpoint):
    """The teacher's backbone, and the side of its training images."""
    state = torch.load(checkpoint, map_location="cpu")
    backbone = VisionTransformer(**state["backbone"])
    of_backbone = "backbone."
    teacher = {k.removeprefix(of_backbone): v for k, v in state["teacher"].items() if k.startswith(of_backbone)}
    backbone.load_state_dict(teacher)
    return backbone.eval().requires_grad_(False), state["backbone"]["size"]


def features_of(backbone, options, data, size):
    """Features and labels of each sample, once: the class token and the mean of the patches."""
    settings = {"recipe": classification(size, train=False), "epochs": 1, "epoch_end": "short_last"}
    features, labels = [], []
    with open_loader(options, data, **settings) as loader:
        for batch in loader:
            classes, patches = backbone(batch.images.torch())
            features.append(torch.cat([classes, patches.mean(1)], 1))
            # A clone: the batch's memory is used again.
            labels.append(batch.labels.torch().clone())
    return torch.cat(features), torch.cat(labels)


def main():
    options = parse()
    torch.manual_seed(options.seed)
    backbone, size = backbone_of(options.checkpoint)
    features, labels = features_of(backbone, options, options.data, size)
    mean, std = features.mean(0), features.std(0) + 1e-6
    layer = nn.Linear(features.shape[1], options.classes)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(options.steps):
        loss = F.cross_entropy(layer((features - mean) / std), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    features, labels = features_of(backbone, options, options.validation, size)
    right = (layer((features - mean) / std).argmax(1) == labels).float().mean().item()
    print(f"training loss {loss.item():.4f}  accuracy {right:.3f} of {len(labels)} samples")


if __name__ == "__main__":
    main()
