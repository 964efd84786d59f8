"""FP8 tensors for PyTorch's ranks and Transformer Engine.

PyTorch and Transformer Engine are imported only when a function is called.
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
    """A function for `Loader(amax_reduce=..)`: the maximum over the ranks of a group of torch.distributed.

    `device`: where the numbers are reduced; by default the current GPU for NCCL, and the CPU otherwise.
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
    """A tensor of `fp8_e4m3` as Transformer Engine's `Float8Tensor`, with the same elements.

    `dtype` is its nominal dtype, torch.float32 by default. The elements are copied to `device`. If that is the
    CPU, they are not copied, and the batch's memory stays in use.
    """
    return split_to_transformer_engine(tensor, 1, device, dtype)[0]


def split_to_transformer_engine(
    tensor: Tensor, views: int, device: Any = None, dtype: Any = None
) -> list[Any]:
    """The same for each view of a tensor with crop-major rows. Without `device` nothing is moved."""
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
