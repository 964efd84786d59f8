"""Lightly's SimCLR, in the Trainer of pytorch_lightning as in Lightly's examples. A batch has two views of each image."""

import pytorch_lightning
import torch
from images import dataloader, identities, loader, ranks
from lightly.data import LightlyDataset
from lightly.loss import NTXentLoss
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms.multi_view_transform import MultiViewTransform
from scenarios import Plan, Step
from torchvision.transforms import ToTensor

NAME = "Lightly"
PACKAGES = ("lightly", "pytorch_lightning")
FEATURES = 8


def opened(kind, folder):
    if kind == "headwater":
        return loader(folder, views=2)
    return dataloader(LightlyDataset(str(folder), transform=MultiViewTransform([ToTensor(), ToTensor()])))


class SimCLR(pytorch_lightning.LightningModule):
    """A small backbone; keeps what its steps were given."""

    def __init__(self, plan):
        super().__init__()
        self.backbone = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, FEATURES))
        self.head = SimCLRProjectionHead(FEATURES, FEATURES, FEATURES)
        self.criterion = NTXentLoss()
        self.plan, self.steps = plan, []

    def training_step(self, batch, _index):
        if hasattr(batch, "images"):
            (first, second), labels = batch.images.chunk(2), batch.labels
        else:
            (first, second), labels, _names = batch
        self.steps.append(Step(self.current_epoch, identities(torch.cat([first, second]), labels)))
        return self.criterion(self.head(self.backbone(first)), self.head(self.backbone(second)))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_batch_end(self, *_):
        if self.plan.checkpoint and len(self.steps) == self.plan.leave_after:
            self.trainer.save_checkpoint(self.plan.checkpoint)

    def on_train_epoch_end(self):
        if self.plan.checkpoint and not self.plan.leave_after:
            self.trainer.save_checkpoint(self.plan.checkpoint)


def train(loader, plan: Plan) -> list[Step]:
    module = SimCLR(plan)
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu",
        devices=ranks()[1],
        strategy="ddp" if ranks()[1] > 1 else "auto",
        max_epochs=plan.epochs,
        max_steps=plan.leave_after or -1,
        limit_train_batches=plan.limit,
        enable_checkpointing=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader, ckpt_path=plan.resume, weights_only=False)
    return module.steps
