"""Trains with Lightning: the Trainer gets the loader, and Lightning's checkpoints contain the loader's position.

    python examples/lightning_module.py 'tests/data/photos/photos-00000[0-2].tar' \\
        --validation tests/data/photos/photos-000003.tar --classes 87

With `--resume CHECKPOINT` it goes on from a checkpoint in mid-epoch, with the next batch.
"""

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from loading import arguments, classification, open_loader
from torch.nn import functional as F
from train_supervised import network


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--validation", required=True, help="validation data, in the form of the training data")
    parser.add_argument("--classes", type=int, required=True, help="number of classes")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of training")
    parser.add_argument("--max-steps", type=int, default=-1, help="steps after which this run ends")
    parser.add_argument("--size", type=int, default=48, help="side of an image, in pixels")
    parser.add_argument("--checkpoints", default="out/lightning", help="folder of checkpoints")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--resume", help="checkpoint to continue from")
    return parser.parse_args()


class Classifier(lightning.LightningModule):
    """A network, its loss and its accuracy. Batches come as `headwater.TorchBatch`, on the Trainer's device."""

    def __init__(self, classes):
        super().__init__()
        self.network = network(classes)

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.network(batch.images), batch.labels)
        print(f"step {self.global_step}  loss {loss.item()!r}", flush=True)
        return loss

    def validation_step(self, batch, index):
        right = (self.network(batch.images).argmax(1) == batch.labels).float().mean()
        self.log("accuracy", right, on_epoch=True, batch_size=len(batch.labels))

    def on_validation_epoch_end(self):
        print(f"accuracy {self.trainer.callback_metrics['accuracy']:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main():
    options = parse()
    lightning.seed_everything(options.seed)
    training = open_loader(options, options.data, recipe=classification(options.size, train=True))
    validation = open_loader(
        options, options.validation, recipe=classification(options.size, train=False), epoch_end="short_last"
    )
    checkpoints = ModelCheckpoint(options.checkpoints, every_n_train_steps=options.checkpoint_every, save_top_k=-1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=options.epochs,
        max_steps=options.max_steps,
        callbacks=[checkpoints],
        logger=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
    )
    with training, validation:
        trainer.fit(Classifier(options.classes), training, validation, ckpt_path=options.resume)


if __name__ == "__main__":
    main()
