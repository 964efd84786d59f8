# The classes are described in __init__.pyi.
from . import Batch as Batch
from . import Iteration as Iteration
from . import Loader as Loader
from . import Sample as Sample
from . import Tensor as Tensor
from . import __version__ as __version__

__all__ = ["Batch", "Iteration", "Loader", "Sample", "Tensor", "__version__"]
