"""Mixup and cutmix of a batch, on its device, with the draws of the receiver.

    from headwater.mixing import mix

    loader = headwater.Loader(.., recipe="supervised-timm", mixing={"mixup_alpha": 0.8, "cutmix_alpha": 1.0})
    for batch in loader:
        batch = batch.to("cuda")
        images, targets = mix(batch.images, batch.labels, batch, num_classes=1000, smoothing=0.1)
        loss = torch.nn.functional.cross_entropy(model(images), targets)
"""

from __future__ import annotations

from typing import Any, Optional

import torch

__all__ = ["mix", "soft_labels"]


def mix(
    images: torch.Tensor, labels: torch.Tensor, batch: Any, num_classes: Optional[int] = None, smoothing: float = 0.0
) -> tuple[torch.Tensor, Any]:
    """Mixes images and returns them with their targets.

    Args:
        images: `[views * batch, 3, height, width]`, floating point, on any device. It is not changed.
        labels: `[batch]`, integers, on the same device.
        batch: their batch: a `headwater.Batch` or a `TorchBatch`. `receiver.mixing` must be set.
        num_classes: with it targets are `float32[batch, num_classes]`, as from timm's `mixup_target`. Without it they
            are `(labels, labels of the partners, lam)`, for a loss `lam * loss(a) + (1 - lam) * loss(b)`.
        smoothing: label smoothing, from 0 to 1, as in timm.

    Values are computed in float32 and rounded once to the images' dtype.

    Raises:
        ValueError: the batch has no mixing, images are not floating point or belong to another batch, or a label is not
            one of the classes (only on a CPU: a check on a GPU would wait for it).
    """
    partner, lam, box = _drawn(batch, images.device)
    samples = len(lam)
    if not images.is_floating_point():
        raise ValueError(f"mix: images are {images.dtype}: normalise them first, levels are not mixed")
    if images.ndim != 4 or len(images) % samples or len(labels) != samples:
        raise ValueError(
            f"mix: {len(images)} images and {len(labels)} labels of a batch with {samples} samples: give whole tensors"
        )
    height, width = images.shape[2:]
    views = images.unflatten(0, (-1, samples))
    own, other = views.float(), views[:, partner].float()
    share = lam.view(-1, 1, 1, 1)
    mixed = other * (1 - share) + own * share
    rows, columns = torch.arange(height, device=lam.device), torch.arange(width, device=lam.device)
    top, bottom, left, right = box.unbind(1)
    in_rows = (rows >= top[:, None]) & (rows < bottom[:, None])
    in_columns = (columns >= left[:, None]) & (columns < right[:, None])
    in_box = (in_rows[:, :, None] & in_columns[:, None, :])[:, None]
    # An empty box, or lam 1, does not change a sample.
    is_cut = (bottom > top).logical_or(lam == 1).view(-1, 1, 1, 1)
    mixed = torch.where(is_cut, torch.where(in_box, other, own), mixed)
    targets = (labels, labels[partner], lam)
    if num_classes is not None:
        targets = soft_labels(*targets, num_classes, smoothing)
    return mixed.to(images.dtype).flatten(0, 1), targets


def soft_labels(
    labels: torch.Tensor, partners: torch.Tensor, lam: torch.Tensor, num_classes: int, smoothing: float = 0.0
) -> torch.Tensor:
    """`float32[batch, num_classes]`: timm's `mixup_target` of labels and the partners' labels.

    Raises:
        ValueError: a label is not one of the classes (on a CPU), or `smoothing` is not from 0 to 1.
    """
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"soft_labels: smoothing is {smoothing}: must be from 0 to 1")
    if labels.device.type == "cpu" and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        wrong = next(int(label) for label in labels if not 0 <= int(label) < num_classes)
        raise ValueError(f"soft_labels: label {wrong} is none of {num_classes} classes, 0 to {num_classes - 1}")
    off = smoothing / num_classes
    on = 1.0 - smoothing + off

    def one_hot(of: torch.Tensor) -> torch.Tensor:
        full = torch.full((len(of), num_classes), off, device=of.device)
        return full.scatter_(1, of.view(-1, 1), on)

    share = lam.view(-1, 1)
    return one_hot(labels) * share + one_hot(partners) * (1.0 - share)


def _drawn(batch: Any, device: torch.device) -> list[torch.Tensor]:
    found = []
    for name in ("mixing_partner", "mixing_lam", "mixing_box"):
        try:
            tensor = getattr(batch, name)
        except AttributeError:
            raise ValueError("mix: the batch has no mixing: give the loader `mixing={..}`, receiver.mixing") from None
        tensor = tensor if isinstance(tensor, torch.Tensor) else tensor.torch()
        found.append(tensor.to(device, non_blocking=True))
    return found
