"""Sequences of tokens that share rows, for PyTorch: as nested tensors, and as attention with variable lengths wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

__all__ = ["NestedPacks", "cu_seqlens", "nested"]


class NestedPacks(NamedTuple):
    """The sequences of a batch as nested tensors with layout `torch.jagged`, `[sequences, length]`, of one ragged size.

    What is behind the last sequence of a row is a sequence, too; its labels count nothing.
    """

    tokens: torch.Tensor
    labels: torch.Tensor
    position_ids: torch.Tensor


def nested(tensors: Mapping[str, torch.Tensor], name: str) -> NestedPacks:
    """The sequences of a batch as nested tensors over the batch's own memory. `name` is the field of kind `pack`."""
    offsets, _ = cu_seqlens(tensors, name)
    offsets = offsets.long()
    values = (tensors[f"{name}{of}"].reshape(-1) for of in ("", "_labels", "_position_ids"))
    # One tensor of offsets: two that are equal would stand for unlike lengths.
    return NestedPacks(*(torch.nested.nested_tensor_from_jagged(one, offsets) for one in values))


def cu_seqlens(tensors: Mapping[str, torch.Tensor], name: str) -> tuple[torch.Tensor, int]:
    """Bounds of all sequences of a batch in its tokens as one row, `i32[n + 1]`, and the length of the longest.

    As `flash_attn_varlen_func` takes them for `tokens.reshape(-1)`. What is behind the last sequence of a row is a sequence, too.
    On a GPU this waits for the batch, as the number of sequences is one of the host's.
    """
    values, bounds = tensors[name], tensors[f"{name}_cu_seqlens"]
    begins = torch.arange(0, values.numel(), values.shape[1], dtype=bounds.dtype, device=bounds.device)
    ends = (bounds[:, 1:] + begins[:, None]).reshape(-1)
    whole = torch.cat([begins, begins.new_tensor([values.numel()])])
    # Rows without room behind their sequences, and places without a sequence, have an end twice.
    all_bounds = torch.unique(torch.cat([whole, ends]))
    return all_bounds, int(all_bounds.diff().max())
