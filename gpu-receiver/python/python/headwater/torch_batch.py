"""A batch as tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import Packed, Sample

__all__ = ["TorchBatch"]


class TorchBatch(dict):
    """A batch's tensors by name as `torch.Tensor`, also as attributes, with epoch, step, group and samples.

    Fields of texts or bytes are attributes, and lists, on any device: `batch.caption[0]`.

    `Batch.torch()` and `Batch.to(device)` return one. Lightning and Accelerate move batches by `to`.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[tuple[str, Any]] = (),
        *,
        epoch: int = 0,
        step: int = 0,
        group: int | None = None,
        samples: Sequence[Sample] = (),
        upperbound: int = 0,
        n_masked_patches: int = 0,
        fields: Mapping[str, Packed] | None = None,
    ):
        super().__init__(tensors)
        self.epoch = epoch
        self.step = step
        self.group = group
        self.samples = list(samples)
        self.upperbound = upperbound
        self.n_masked_patches = n_masked_patches
        self.fields = dict(fields or {})

    def to(self, device: Any, non_blocking: bool = False) -> TorchBatch:
        """The same batch with all tensors on a device; tensors that are already there are not copied."""
        moved = {name: one.to(device, non_blocking=non_blocking) for name, one in self.items()}
        return TorchBatch(moved, **vars(self))

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        try:
            return self[name]
        except KeyError:
            known = ", ".join([*self, *fields])
            raise AttributeError(f"the batch has no tensor `{name}`: it has {known}") from None
