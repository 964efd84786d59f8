# The classes are described in __init__.pyi.
from typing import Optional

from . import Batch as Batch
from . import Iteration as Iteration
from . import Loader as Loader
from . import Renderer as Renderer
from . import Sample as Sample
from . import Tensor as Tensor
from . import __version__ as __version__
from . import decode as decode
from . import render as render

__all__ = ["Batch", "Iteration", "Loader", "Renderer", "Sample", "Tensor", "__version__", "decode", "program", "render"]

def program() -> Optional[str]: ...
