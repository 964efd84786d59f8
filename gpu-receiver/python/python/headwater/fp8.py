"""FP8 tensors in the hands of PyTorch's ranks and of Transformer Engine.

Imports PyTorch and Transformer Engine when a function is called, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._native import Tensor

__all__ = ["amax_reduce", "to_transformer_engine"]


def amax_reduce(
    group: Any = None, device: Optional[str] = None
) -> Callable[[Sequence[float]], list[float]]:
    """What `Loader(amax_reduce=..)` takes: the largest over the ranks of a group of torch.distributed.

    `device`: where the numbers are reduced; the current GPU for NCCL, else the CPU.
    """
    import torch
    from torch import distributed

    if device is None:
        device = "cuda" if distributed.get_backend(group) == "nccl" else "cpu"

    def reduce(amaxes: Sequence[float]) -> list[float]:
        largest = torch.tensor(amaxes, dtype=torch.float32, device=device)
        distributed.all_reduce(largest, distributed.ReduceOp.MAX, group=group)
        return largest.tolist()

    return reduce


def to_transformer_engine(tensor: Tensor, device: Any = "cuda", dtype: Any = None) -> Any:
    """A tensor of `fp8_e4m3` as Transformer Engine's `Float8Tensor`, element by element what it is here.

    `dtype` is what it presents itself as, torch.float32 where nothing is said. The elements are copied to
    `device`; where that is the CPU, they stay where they are, and so does the batch's memory.
    """
    return split_to_transformer_engine(tensor, 1, device, dtype)[0]


def split_to_transformer_engine(
    tensor: Tensor, views: int, device: Any = None, dtype: Any = None
) -> list[Any]:
    """The same for each view of a tensor, whose rows are crop-major. Without `device` nothing is moved."""
    if tensor.dtype != "fp8_e4m3":
        raise TypeError(f"`{tensor.name}` is {tensor.dtype}: a Float8Tensor is made of fp8_e4m3")
    try:
        quantizer_type, fp8_dtype = _transformer_engine()
    except ImportError as error:
        raise ImportError(
            "Transformer Engine 2 is not installed: `pip install transformer-engine[pytorch]`, or use "
            "`tensor.torch()` with `tensor.scale_inv`"
        ) from error
    import torch

    elements = tensor.torch().view(torch.uint8)
    if device is not None:
        elements = elements.to(device)

    def number(value: Optional[float]) -> Any:
        return torch.tensor([value], dtype=torch.float32, device=elements.device)

    quantizer = quantizer_type(
        number(tensor.scale), number(tensor.amax), fp8_dtype.kFloat8E4M3, columnwise=False
    )
    return [
        quantizer.create_tensor_from_data(view, fake_dtype=dtype or torch.float32)
        for view in elements.chunk(views)
    ]


def transformer_engine_is_here() -> bool:
    """Whether Transformer Engine 2 can be imported."""
    try:
        _transformer_engine()
    except ImportError:
        return False
    return True


def _transformer_engine() -> tuple[Any, Any]:
    from transformer_engine.pytorch.tensor.float8_tensor import Float8Quantizer
    from transformer_engine_torch import DType

    return Float8Quantizer, DType
