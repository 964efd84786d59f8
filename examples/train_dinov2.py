"""Trains a small vision transformer as DINOv2 does: DINO's loss, iBOT's loss, and a teacher that follows the student.

    python examples/train_dinov2.py 'tests/data/photos/*.tar' --checkpoint out/dino.pt

Stopped at any step and started again with `--resume`, it gives the losses of a run that was never stopped, to the last
bit: model, optimiser and the loader's place are in one checkpoint.
"""

import copy
import json
import math
from pathlib import Path

import torch
from dino_loss import Center, Head, dino_loss, ibot_loss, information
from loading import arguments, open_loader
from torch import nn
from vision_transformer import VisionTransformer


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=300, help="length of the training and of all schedules")
    parser.add_argument("--stop-after", type=int, help="step after which this run ends")
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end")
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument("--log", type=Path, help="file for the losses of each step, in JSON")
    parser.add_argument("--size", type=int, default=48, help="side of global crops, in pixels")
    parser.add_argument("--local-size", type=int, default=24, help="side of local crops, in pixels")
    parser.add_argument("--locals", type=int, default=4, help="local crops of a sample")
    parser.add_argument("--patch", type=int, default=8, help="side of a patch, in pixels")
    parser.add_argument("--dim", type=int, default=192, help="width of the transformer")
    parser.add_argument("--depth", type=int, default=3, help="blocks of the transformer")
    parser.add_argument("--prototypes", type=int, default=512, help="outputs of each head")
    parser.add_argument("--lr", type=float, default=5e-4, help="largest learning rate")
    parser.add_argument("--momentum", type=float, default=0.99, help="teacher's momentum at the start; 1 at the end")
    parser.add_argument("--temperature", type=float, default=0.04, help="teacher's temperature after its warm-up")
    parser.add_argument("--device", default="cpu", help="where the model is")
    return parser.parse_args()


def recipe(options):
    """DINOv2's augmentation at other sizes: see docs/recipes.md."""
    sizes = {
        "global_crops_size": options.size,
        "local_crops_size": options.local_size,
        "local_crops_number": options.locals,
        "patch_size": options.patch,
        "horizontal_flips": True,
    }
    return {"preset": "dinov3-vitl", "dtype": "f32", "dinov3": sizes}


def cosine(step, steps, begin, end, warmup=0):
    """From `begin` to `end` along half a cosine, after `warmup` steps that rise from 0 to `begin`."""
    if step < warmup:
        return begin * (step + 1) / warmup
    share = (step - warmup) / max(1, steps - warmup)
    return end + (begin - end) * (1 + math.cos(math.pi * share)) / 2


class Network(nn.Module):
    """A backbone with a head for class tokens and one for patch tokens."""

    def __init__(self, options):
        super().__init__()
        self.backbone = VisionTransformer(options.size, options.patch, options.dim, options.depth)
        self.dino_head = Head(options.dim, 2 * options.dim, 128, options.prototypes)
        self.ibot_head = Head(options.dim, 2 * options.dim, 128, options.prototypes)


class Training:
    """Student, teacher, optimiser, and everything else in a checkpoint."""

    def __init__(self, options):
        torch.manual_seed(options.seed)
        self.options, self.step = options, 0
        self.student = Network(options).to(options.device)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.dino_center = Center(options.prototypes).to(options.device)
        self.ibot_center = Center(options.prototypes).to(options.device)
        self.optimizer = torch.optim.AdamW(self.student.parameters())

    def loss(self, batch):
        """DINO's loss and iBOT's loss of a batch, and the information in the targets of each."""
        options, samples = self.options, len(batch.labels)
        warm = min(1.0, self.step / (0.3 * options.steps))
        temperature = 0.04 + (options.temperature - 0.04) * warm
        with torch.no_grad():
            classes, patches = self.teacher.backbone(batch.global_crops)
            class_targets = self.dino_center.targets(self.teacher.dino_head(classes), temperature)
            masked = patches.flatten(0, 1)[batch.mask_indices]
            patch_targets = self.ibot_center.targets(self.teacher.ibot_head(masked), temperature)
        global_classes, patches = self.student.backbone(batch.global_crops, batch.masks)
        local_classes, _ = self.student.backbone(batch.local_crops)
        head = self.student.dino_head
        dino = dino_loss(class_targets, head(global_classes), head(local_classes), samples)
        outputs = self.student.ibot_head(patches.flatten(0, 1)[batch.mask_indices])
        ibot = ibot_loss(patch_targets, outputs, batch.masks_weight, len(batch.masks))
        return dino, ibot, information(class_targets), information(patch_targets)

    def train_step(self, batch):
        """One step of the student and of the teacher; returns the figures for the log."""
        step, steps = self.step, self.options.steps
        for group in self.optimizer.param_groups:
            group["lr"] = cosine(step, steps, self.options.lr, 1e-6, warmup=steps // 10)
            group["weight_decay"] = cosine(step, steps, 0.04, 0.4)
        dino, ibot, of_classes, of_patches = self.loss(batch)
        self.optimizer.zero_grad()
        (dino + ibot).backward()
        nn.utils.clip_grad_norm_(self.student.parameters(), 3.0)
        self.optimizer.step()
        momentum = cosine(step, steps, self.options.momentum, 1.0)
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters()):
                kept.lerp_(new, 1 - momentum)
        self.step += 1
        return {
            "dino": dino.item(),
            "ibot": ibot.item(),
            "class_information": of_classes,
            "patch_information": of_patches,
        }

    def parts(self):
        return {
            "student": self.student,
            "teacher": self.teacher,
            "dino_center": self.dino_center,
            "ibot_center": self.ibot_center,
            "optimizer": self.optimizer,
        }

    def save(self, loader):
        """Writes a checkpoint atomically: the file is either the old one or the new one."""
        state = {name: part.state_dict() for name, part in self.parts().items()}
        state.update(step=self.step, loader=loader.state_dict(), backbone=self.shape())
        path = self.options.checkpoint
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, loader):
        state = torch.load(self.options.checkpoint, map_location=self.options.device)
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.step = state["step"]
        loader.load_state_dict(state["loader"])

    def shape(self):
        """The arguments of the backbone, for its users."""
        options = self.options
        return {"size": options.size, "patch": options.patch, "dim": options.dim, "depth": options.depth}


def batches(loader):
    """Endless batches, one epoch after the other."""
    while True:
        yield from loader


def main():
    options = parse()
    for file in filter(None, (options.log, options.checkpoint)):
        file.parent.mkdir(parents=True, exist_ok=True)
    training = Training(options)
    loader = open_loader(options, options.data, recipe=recipe(options), masks={"patch": options.patch})
    if options.resume:
        training.load(loader)
    end = min(options.steps, options.stop_after or options.steps)
    log = options.log.open("a", buffering=1) if options.log else None
    with loader:
        for batch in batches(loader):
            place = {"step": training.step, "epoch": batch.epoch, "step_of_epoch": batch.step}
            done = training.train_step(batch.to(options.device))
            if log:
                print(json.dumps({**place, **done}), file=log)
            if training.step % 10 == 0:
                shown = "  ".join(f"{name} {value:.4f}" for name, value in done.items())
                print(f"step {training.step:5}  {shown}", flush=True)
            is_last = training.step >= end
            if options.checkpoint and (is_last or training.step % options.checkpoint_every == 0):
                training.save(loader)
            if is_last:
                break


if __name__ == "__main__":
    main()
