"""A batch in the form of dino_loader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import fp8

if TYPE_CHECKING:
    from .._native import Batch, Tensor


@dataclass(frozen=True)
class DINOBatch:
    """Crops of a batch, one `torch.Tensor` of shape [batch, 3, size, size] for each view.

    The tensors are views of the receiver's memory: nothing is copied, and you must not write to them. With
    FP8 they are Transformer Engine's `Float8Tensor`.
    """

    global_crops: list[Any]
    local_crops: list[Any]
    #: `i64[batch]`; -1 if a dataset has no labels.
    labels: Any
    #: The `headwater.Batch` with everything else: keys, samples, position, masks.
    batch: Batch


class Splitter:
    """Converts whole batches to batches of crops."""

    def __init__(self, recipe: dict[str, Any], output_dtype: str):
        self._views = {tensor["name"]: len(tensor["views"]) for tensor in recipe["tensors"]}
        self._output_dtype = output_dtype

    def __call__(self, batch: Batch) -> DINOBatch:
        return DINOBatch(
            global_crops=self._crops(batch, "global_crops"),
            local_crops=self._crops(batch, "local_crops"),
            labels=batch.labels.torch(),
            batch=batch,
        )

    def _crops(self, batch: Batch, name: str) -> list[Any]:
        if name not in self._views:
            return []
        tensor, views = batch[name], self._views[name]
        if tensor.dtype == "fp8_e4m3":
            return self._float8(tensor, views)
        # Rows are crop-major.
        return list(tensor.torch().chunk(views))

    def _float8(self, tensor: Tensor, views: int) -> list[Any]:
        import torch

        presented = torch.float32 if self._output_dtype == "fp32" else torch.bfloat16
        return fp8.split_to_transformer_engine(tensor, views, dtype=presented)
