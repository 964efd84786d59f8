"""Megatron's GPT batches, over a `headwater.Loader`.

    from headwater.integrations.megatron import gpt_loader

    train = gpt_loader("blend.txt", sequence_length=4096, micro_batch_size=2, samples=10_000_000, tokenizer=get_tokenizer(),
                       rank=mpu.get_data_parallel_rank(), world_size=mpu.get_data_parallel_world_size())
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Optional

import torch

from .. import Loader
from ..errors import ConfigError
from ..sampling import BatchIterator, DataLoaderWrapper
from ._opening import is_on_cluster, refuse

__all__ = ["GPTBatches", "attention_mask", "gpt_loader"]

_NAME = "tokens"
_TEXT = "text"
_LABELS, _LOSS_MASK, _POSITION_IDS, _CU_SEQLENS = (f"{_NAME}_{name}" for name in ("labels", "loss_mask", "position_ids", "cu_seqlens"))


def gpt_loader(
    data: Any,
    *,
    sequence_length: int,
    micro_batch_size: int,
    samples: Optional[int] = None,
    seed: Optional[int] = None,
    split: Optional[str] = None,
    part: Optional[str] = None,
    tokenizer: Any = None,
    stored: Optional[str] = None,
    eod: Optional[int] = None,
    pad: Optional[int] = None,
    reset_position_ids: bool = False,
    reset_attention_mask: bool = False,
    eod_mask_loss: bool = False,
    create_attention_mask: bool = False,
    consumed_samples: int = 0,
    rank: int = 0,
    world_size: int = 1,
    **options: Any,
) -> GPTBatches:
    """Batches of this data-parallel rank, as Megatron's `GPTDataset`, `BlendedDataset` and `MegatronPretrainingSampler` give them.

    `data` is a `.bin` file, or a list of weights and corpora as `--data-args-path` names one. On a cluster it is a dataset's name, and
    that dataset's configuration has `samples`, `seed`, `split` and `part`. `tokenizer` is Megatron's: what is left out of `eod`, `pad`
    and `stored` follows from it as in megatron-core. `stored` is the type of the tokens in the files: `u16`, and `i32` where the
    tokenizer's `vocab_size` is 65,500 or more. `rank` and `world_size` are those of data parallelism. `consumed_samples` counts samples
    of all ranks. `options` are keywords of `headwater.Loader`.

    As in megatron-core, a `pad` that is another special token, such as the end of a document, is no padding, with a warning: its loss
    would not count, and a model would never learn to end.

    Raises `ConfigError` for an argument that does not fit, before anything is opened; for `consumed_samples` at or beyond the end of
    the order, after it was opened and closed again.
    """
    whole = micro_batch_size * world_size
    if consumed_samples < 0 or consumed_samples % max(whole, 1):
        remedy = f"give a multiple of {micro_batch_size} samples of {world_size} ranks"
        raise ConfigError(f"`consumed_samples={consumed_samples}` of gpt_loader: {remedy}")
    eod = _id(tokenizer, "eod") if eod is None else eod
    pad = _padding(tokenizer, eod, _id(tokenizer, "pad") if pad is None else pad)
    sequence = {
        "name": _NAME,
        "field": _TEXT,
        "kind": "sequence",
        "length": sequence_length,
        "stored": stored or _stored(tokenizer),
        **{key: value for key, value in (("eod", eod), ("pad", pad)) if value is not None},
        "reset_position_ids": reset_position_ids,
        "reset_attention_mask": reset_attention_mask,
        "eod_mask_loss": eod_mask_loss,
    }
    order = {"samples": samples, "seed": seed, "split": split, "part": part}
    order = {key: value for key, value in order.items() if value is not None}
    source: dict[str, Any] = {"datasets": data}
    if is_on_cluster(options):
        for key, value in order.items():
            refuse(f"{key}={value!r}", "gpt_loader", f"on a cluster `{key}` is a key of `megatron` in the dataset's configuration")
    else:
        source = {"data": data, "datasets": {"name": "data", "sequence_length": sequence_length, "megatron": order}}
    recipe = {"preset": "custom", "fields": [sequence]}
    # The order is Megatron's, and so is the end of an epoch: what fills no batch of all ranks is left out.
    keywords = {"recipe": recipe, "batch_size": micro_batch_size, "image_field": _TEXT, "label_field": "", "epochs": 1}
    keywords |= {"rank": rank, "world_size": world_size}
    loader = Loader(**{**source, **keywords, **options})
    step = consumed_samples // whole
    if step:
        try:
            loader.seek(0, step)
        except BaseException as error:
            steps = len(loader)
            loader.close()
            if isinstance(error, ConfigError) and step >= steps:
                known = f"this order ends after {steps * whole} samples in whole batches of all ranks"
                raise ConfigError(f"`consumed_samples={consumed_samples}` of gpt_loader: {known}") from error
            raise
    return GPTBatches(loader, create_attention_mask)


def _id(tokenizer: Any, name: str) -> Optional[int]:
    """A token of a tokenizer; none where it has none, which its classes say in many ways."""
    try:
        found: Optional[int] = getattr(tokenizer, name)
    except Exception:
        return None
    return found if found is None or found >= 0 else None


def _stored(tokenizer: Any) -> str:
    """The type of tokens as `DType.optimal_dtype` has it; a size that is not known counts as a large one."""
    size = _id(tokenizer, "vocab_size")
    return "u16" if tokenizer is None or (size is not None and size < 65500) else "i32"


def _padding(tokenizer: Any, eod: Optional[int], pad: Optional[int]) -> Optional[int]:
    """The token for padding, unless it means something else, too: `MegatronDataset.__init__`."""
    try:
        special = [token for name, token in tokenizer.special_tokens_dict.items() if name != "pad_token"]
    except (AttributeError, IndexError, ValueError):
        special = []
    special = special or [_id(tokenizer, "eos"), _id(tokenizer, "eod")]
    if pad is None or pad not in [eod, *special]:
        return pad
    text = f"token {pad} is for padding and another special token: gpt_loader takes no token for padding, as Megatron does"
    warnings.warn(text, stacklevel=3)
    return None


class GPTBatches(DataLoaderWrapper):
    """Batches of a loader as Megatron's `get_batch` takes them: dicts of tensors with `[micro_batch_size, sequence_length]`.

    It is its own iterator, too: Megatron calls `next` on what a dataloader of type `external` is.
    """

    def __init__(self, loader: Loader, create_attention_mask: bool = False) -> None:
        super().__init__(loader)
        self._has_mask = create_attention_mask
        self._positions: Optional[torch.Tensor] = None
        self._own: Optional[BatchIterator] = None

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return BatchIterator(self.loader, self._converted)

    def __next__(self) -> dict[str, torch.Tensor]:
        if self._own is None:
            self._own = BatchIterator(self.loader, self._converted)
        batch: dict[str, torch.Tensor] = next(self._own)
        return batch

    def _converted(self, batch: Any) -> dict[str, torch.Tensor]:
        tensors = batch.torch()
        tokens: torch.Tensor = tensors[_NAME]
        positions: Optional[torch.Tensor] = tensors.get(_POSITION_IDS)
        if positions is None:
            # The same in every batch: made once, as upstream does.
            if self._positions is None or self._positions.device != tokens.device:
                self._positions = torch.arange(tokens.shape[1], device=tokens.device)
            positions = self._positions.expand(tokens.shape)
        found = {_NAME: tokens, "labels": tensors[_LABELS], "loss_mask": tensors[_LOSS_MASK], "position_ids": positions}
        bounds: Optional[torch.Tensor] = tensors.get(_CU_SEQLENS)
        if bounds is not None:
            found["cu_seqlens"] = bounds
        if self._has_mask:
            found["attention_mask"] = attention_mask(found[_NAME], bounds)
        return found


def attention_mask(tokens: torch.Tensor, cu_seqlens: Optional[torch.Tensor]) -> torch.Tensor:
    """Megatron's mask, `bool[batch, 1, length, length]`: true where a token must not look, behind it and in other documents."""
    batch, length = tokens.shape
    hidden = torch.ones((length, length), dtype=torch.bool, device=tokens.device).triu(1).expand(batch, 1, length, length)
    if cu_seqlens is None:
        return hidden
    positions = torch.arange(length, dtype=cu_seqlens.dtype, device=tokens.device).expand(batch, length).contiguous()
    document = torch.searchsorted(cu_seqlens.contiguous(), positions, right=True)
    return hidden | (document[:, None, :, None] != document[:, None, None, :])
