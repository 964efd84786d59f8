"""Lightning's Trainer. It is given the loader itself."""

import lightning
import torch
from images import Images, dataloader, identities, loader, ranks, unpacked
from scenarios import Plan, Step

NAME = "Lightning"
PACKAGES = ("lightning",)


def opened(kind, folder):
    return loader(folder) if kind == "headwater" else dataloader(Images(folder))


class Module(lightning.LightningModule):
    """One weight; keeps what its steps were given."""

    def __init__(self, plan):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.plan, self.steps = plan, []

    def training_step(self, batch, _index):
        images, labels = unpacked(batch)
        self.steps.append(Step(self.current_epoch, identities(images, labels)))
        return self.weight * images.mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_batch_end(self, *_):
        if self.plan.checkpoint and len(self.steps) == self.plan.leave_after:
            self.trainer.save_checkpoint(self.plan.checkpoint)


def train(loader, plan: Plan) -> list[Step]:
    module, callbacks = Module(plan), []
    if plan.checkpoint and not plan.leave_after:
        checkpoint = lightning.pytorch.callbacks.ModelCheckpoint(plan.checkpoint.parent, filename=plan.checkpoint.name)
        checkpoint.FILE_EXTENSION = ""
        checkpoint.STARTING_VERSION = 0
        callbacks.append(checkpoint)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=ranks()[1],
        strategy="ddp" if ranks()[1] > 1 else "auto",
        max_epochs=plan.epochs,
        max_steps=plan.leave_after or -1,
        limit_train_batches=plan.limit,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader, ckpt_path=plan.resume, weights_only=False)
    return module.steps
