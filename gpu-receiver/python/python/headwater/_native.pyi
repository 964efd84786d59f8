# The classes are described in __init__.pyi.
from collections.abc import Mapping
from typing import Any, Optional

from . import Batch as Batch
from . import Iteration as Iteration
from . import Loader as Loader
from . import Packed as Packed
from . import Renderer as Renderer
from . import Sample as Sample
from . import Tensor as Tensor
from . import Trace as Trace
from . import __version__ as __version__
from . import decode as decode
from . import render as render

__all__ = [
    "Batch",
    "Iteration",
    "Loader",
    "Packed",
    "Renderer",
    "Sample",
    "Tensor",
    "Trace",
    "__version__",
    "decode",
    "program",
    "render",
    "service_config",
]

def program() -> Optional[str]: ...
def service_config(
    datasets: Any, config: Any, settings: Mapping[str, Any], threads: int, has_gpu: bool
) -> tuple[str, bool]: ...
