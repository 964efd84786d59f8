"""Token ids of captions, equal to those of open_clip's own tokenizer.

Workers make the ids of plain captions, with a `tokenizer.json` of the same vocabulary and merges. open_clip's tokenizer also
repairs texts (`ftfy`, HTML), which that format does not have: what is not plain goes through the tokenizer itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch

__all__ = ["Tokens", "is_plain", "tokenizer_json"]

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


class Tokens:
    """Makes token ids of a batch's captions. `field` is what the recipe needs for it, or `None`."""

    def __init__(self, tokenizer: Any, source: str, bytes_max: int, by_workers: bool) -> None:
        self._tokenizer = tokenizer
        self.field: Optional[dict[str, Any]] = None
        if by_workers and _is_simple(tokenizer):
            self.field = {
                "name": "ids",
                "field": source,
                "kind": "tokens",
                "tokenizer": str(_written(tokenizer_json(tokenizer))),
                "length": tokenizer.context_length,
                "pad_id": 0,
                "bytes_max": bytes_max,
            }

    def __call__(self, captions: Sequence[str], batch: Any) -> torch.Tensor:
        """`int64[batch, length]` of these captions."""
        if self.field is None:
            return self._tokenizer(list(captions))
        ids = batch["ids"]
        own = [row for row, caption in enumerate(captions) if not is_plain(caption)]
        if own:
            ids = ids.clone()
            ids[own] = self._tokenizer([captions[row] for row in own])
        return ids


def is_plain(text: str) -> bool:
    """Whether open_clip's cleaning only changes its case and its spaces: printable ASCII without HTML."""
    return text.isascii() and text.isprintable() and "&" not in text and "<" not in text


def _is_simple(tokenizer: Any) -> bool:
    """Whether it is a `SimpleTokenizer` with the usual settings, whose ids follow from vocabulary and merges."""
    return (
        type(tokenizer).__name__ == "SimpleTokenizer"
        and type(tokenizer).__module__ == "open_clip.tokenizer"
        and tokenizer.reduction_fn is None
        and getattr(tokenizer.clean_fn, "__name__", "") == "_clean_lower"
    )


def tokenizer_json(tokenizer: Any) -> bytes:
    """A `SimpleTokenizer` as Hugging Face's `tokenizers` reads it."""
    begin, end = (tokenizer.decoder[number] for number in tokenizer.all_special_ids[:2])
    merges = sorted(tokenizer.bpe_ranks, key=tokenizer.bpe_ranks.get)
    words = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Removed", "invert": True}
    level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": tokenizer.encoder[text], "content": text, **flags} for text in (begin, end)],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [words, {"type": "ByteLevel", **level}]},
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": [end, tokenizer.encoder[end]],
            "cls": [begin, tokenizer.encoder[begin]],
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        "decoder": {"type": "ByteLevel", **level},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": end,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "</w>",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": tokenizer.encoder,
            "merges": [" ".join(pair) for pair in merges],
        },
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _written(content: bytes) -> Path:
    """The file with this content, in the user's cache: services of this host may read it after this process has ended."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "headwater" / "tokenizers"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(content).hexdigest()}.json"
    if not path.exists() or path.read_bytes() != content:
        # Ranks write at the same time: whole files take each other's place.
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    return path
