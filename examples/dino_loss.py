"""DINO's head, its loss with a centre, and iBOT's loss over masked patches."""

import torch
from torch import nn
from torch.nn import functional as F

STUDENT_TEMPERATURE = 0.1
CENTER_MOMENTUM = 0.9


class Head(nn.Module):
    """Tokens to prototypes: a multilayer perceptron, a unit vector, and its cosines with the prototypes."""

    def __init__(self, dim, hidden, bottleneck, prototypes):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, bottleneck)
        )
        self.prototypes = nn.Parameter(torch.randn(prototypes, bottleneck))

    def forward(self, tokens):
        return F.linear(F.normalize(self.mlp(tokens), dim=-1), F.normalize(self.prototypes, dim=-1))


class Center(nn.Module):
    """The moving mean of the teacher's outputs, which keeps one prototype from taking all images.

    It is corrected for its start at zero, as Adam's means are.
    """

    def __init__(self, prototypes):
        super().__init__()
        self.register_buffer("mean", torch.zeros(prototypes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def targets(self, outputs, temperature):
        """The teacher's outputs, centred and sharpened: target probabilities for the student."""
        self.mean.lerp_(outputs.mean(0), 1 - CENTER_MOMENTUM)
        self.steps += 1
        center = self.mean / (1 - CENTER_MOMENTUM**self.steps)
        return F.softmax((outputs - center) / temperature, dim=-1)


def _cross_entropy(targets, outputs):
    return -(targets * F.log_softmax(outputs / STUDENT_TEMPERATURE, dim=-1)).sum(-1)


def dino_loss(targets, global_outputs, local_outputs, samples):
    """Compares each view of the student with the teacher's other views of the same sample.

    All are [views * samples, prototypes], crop-major as a loader's batches.
    """
    targets, global_outputs = targets.split(samples), global_outputs.split(samples)
    pairs = [
        _cross_entropy(target, output).mean()
        for i, target in enumerate(targets)
        for j, output in enumerate(global_outputs + local_outputs.split(samples))
        if i != j
    ]
    return torch.stack(pairs).mean()


def ibot_loss(targets, outputs, weights, rows):
    """Compares the student's masked patches with the teacher's patches, which are not masked.

    `weights` is `batch.masks_weight`, by which each of the `rows` images counts alike.
    """
    return (_cross_entropy(targets, outputs) * weights).sum() / rows


def information(targets):
    """The information of a target about its image, in nats: the entropy of the mean target minus the mean entropy.

    It goes to 0 when the model collapses, which lowers the losses as well: watch both.
    """

    def entropy(probabilities):
        return torch.special.entr(probabilities).sum(-1)

    return (entropy(targets.mean(0)) - entropy(targets).mean()).item()
