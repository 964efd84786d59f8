"""Stands in for Transformer Engine 2, which needs a GPU to be installed."""

import sys
import types


class Quantizer:
    """In place of `Float8Quantizer`: keeps what it is given, and dequantises as the kernel does."""

    def __init__(self, scale, amax, fp8_dtype, *, rowwise=True, columnwise=True):
        self.scale, self.amax, self.dtype, self.columnwise = scale, amax, fp8_dtype, columnwise

    def create_tensor_from_data(self, data, fake_dtype, requires_grad=False, internal=False):
        import torch

        assert data.dtype == torch.uint8 and not requires_grad and not internal
        values = data.view(torch.float8_e4m3fn).to(torch.float32) * (1 / self.scale)
        return types.SimpleNamespace(quantizer=self, data=data, values=values.to(fake_dtype))


def install(monkeypatch):
    """Makes it what is imported, until the test ends."""
    for name in ["transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.tensor"]:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = types.SimpleNamespace(Float8Quantizer=Quantizer)
    monkeypatch.setitem(sys.modules, "transformer_engine.pytorch.tensor.float8_tensor", module)
    dtypes = types.SimpleNamespace(DType=types.SimpleNamespace(kFloat8E4M3="kFloat8E4M3"))
    monkeypatch.setitem(sys.modules, "transformer_engine_torch", dtypes)
