"""Trains a small convolutional network on labelled images, and measures it on others after each epoch.

    python examples/train_supervised.py 'tests/data/photos/photos-00000[0-2].tar' \\
        --validation tests/data/photos/photos-000003.tar --classes 87

The photographs of tests/data are crops of 87 sources, and a sample's label is its source: training and validation
have different crops of the same sources.
"""

import torch
from loading import arguments, classification, open_loader
from torch import nn
from torch.nn import functional as F


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--validation", required=True, help="validation data, in the form of the training data")
    parser.add_argument("--classes", type=int, required=True, help="number of classes")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of training")
    parser.add_argument("--size", type=int, default=48, help="side of an image, in pixels")
    parser.add_argument("--device", default="cpu", help="where the model is")
    return parser.parse_args()


def network(classes, width=32):
    """Three convolutions with stride 2, the mean over all places, a linear layer."""

    def stage(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )

    stages = [stage(3, width), stage(width, 2 * width), stage(2 * width, 4 * width)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


def train(model, optimizer, schedule, loader, device):
    """Trains one epoch; returns the mean loss."""
    model.train()
    total = 0.0
    for batch in loader:
        batch = batch.to(device)
        loss = F.cross_entropy(model(batch.images), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(model, loader, device):
    """Share of the samples with the correct class."""
    model.eval()
    right = samples = 0
    # The same batches each time; otherwise each pass would use the order of the next epoch.
    loader.set_epoch(0)
    for batch in loader:
        batch = batch.to(device)
        right += (model(batch.images).argmax(1) == batch.labels).sum().item()
        samples += len(batch.labels)
    return right / samples


def main():
    options = parse()
    torch.manual_seed(options.seed)
    model = network(options.classes).to(options.device)
    training = open_loader(options, options.data, recipe=classification(options.size, train=True))
    # `short_last`: each sample counts, including those that do not fill a batch.
    validation = open_loader(
        options, options.validation, recipe=classification(options.size, train=False), epoch_end="short_last"
    )
    steps = options.epochs * len(training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    with training, validation:
        for epoch in training.epochs(options.epochs):
            loss = train(model, optimizer, schedule, training, options.device)
            right = accuracy(model, validation, options.device)
            print(f"epoch {epoch:3}  loss {loss:.4f}  accuracy {right:.3f}", flush=True)


if __name__ == "__main__":
    main()
