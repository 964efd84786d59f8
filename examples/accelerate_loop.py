"""Trains with Accelerate, which prepares model and optimiser, and saves the loader's position with them.

    python examples/accelerate_loop.py 'tests/data/photos/*.tar' --classes 87
    accelerate launch --num_processes 8 examples/accelerate_loop.py 'tests/data/photos/*.tar' --classes 87

The loader is not prepared: each rank's loader gives the batches of its own rank, so that there is nothing to divide.
"""

from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from loading import arguments, classification, open_loader
from torch.nn import functional as F
from train_supervised import network


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--classes", type=int, required=True, help="number of classes")
    parser.add_argument("--steps", type=int, default=200, help="step after which this run ends")
    parser.add_argument("--size", type=int, default=48, help="side of an image, in pixels")
    parser.add_argument("--checkpoint", type=Path, help="folder to write at the end")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    return parser.parse_args()


class Progress:
    """The number of completed steps, as part of a checkpoint."""

    def __init__(self):
        self.step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


def batches(loader):
    """Endless batches, one epoch after the other."""
    while True:
        yield from loader


def main():
    options = parse()
    accelerator = Accelerator(cpu=options.cpu)
    set_seed(options.seed)
    model = network(options.classes)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    progress = Progress()
    place = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
    recipe = classification(options.size, train=True)
    with open_loader(options, options.data, recipe=recipe, **place) as loader:
        accelerator.register_for_checkpointing(loader, progress)
        if options.resume:
            accelerator.load_state(options.checkpoint)
        for batch in batches(loader):
            batch = batch.to(accelerator.device)
            loss = F.cross_entropy(model(batch.images), batch.labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            accelerator.print(f"step {progress.step}  loss {loss.item()!r}", flush=True)
            progress.step += 1
            if progress.step >= options.steps:
                break
        if options.checkpoint:
            accelerator.save_state(options.checkpoint)


if __name__ == "__main__":
    main()
