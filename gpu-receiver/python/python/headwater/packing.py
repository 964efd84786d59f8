"""Sequences of tokens that share rows, for PyTorch: as a nested tensor, and as attention with variable lengths wants them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

__all__ = ["cu_seqlens", "nested"]


def nested(tensors: Mapping[str, torch.Tensor], name: str, of: str = "") -> torch.Tensor:
    """The sequences of a batch as a nested tensor with layout `torch.jagged`, `[sequences, length]`, over the batch's own memory.

    `name` is the field of kind `pack`. `of` is `""` for its tokens, `"_labels"` or `"_position_ids"`. What is behind the last
    sequence of a row is in none.
    """
    values, bounds = tensors[f"{name}{of}"], tensors[f"{name}_cu_seqlens"].long()
    begins = bounds[:, :-1] + _rows(values, bounds)
    places = torch.arange(bounds.shape[1] - 1, device=bounds.device)
    is_there = places < tensors[f"{name}_sequences"][:, None]
    end = begins.new_tensor([values.numel()])
    offsets = torch.cat([begins[is_there], end])
    return torch.nested.nested_tensor_from_jagged(values.reshape(-1), offsets, bounds.diff(dim=1)[is_there])


def cu_seqlens(tensors: Mapping[str, torch.Tensor], name: str) -> tuple[torch.Tensor, int]:
    """Bounds of all sequences of a batch in its tokens as one row, `i32[n + 1]`, and the length of the longest.

    As `flash_attn_varlen_func` takes them for `tokens.reshape(-1)`. What is behind the last sequence of a row is a sequence, too.
    """
    values, bounds = tensors[name], tensors[f"{name}_cu_seqlens"]
    ends = (bounds[:, 1:] + _rows(values, bounds)).reshape(-1)
    whole = torch.arange(0, values.numel() + 1, values.shape[1], dtype=ends.dtype, device=ends.device)
    # Rows without room behind their sequences, and places without a sequence, have an end twice.
    all_bounds = torch.unique(torch.cat([whole, ends]))
    return all_bounds, int(all_bounds.diff().max())


def _rows(values: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Where each row begins, `[rows, 1]`."""
    length = values.shape[1]
    return torch.arange(0, values.numel(), length, dtype=bounds.dtype, device=bounds.device)[:, None]
