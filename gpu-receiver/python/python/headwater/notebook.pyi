from typing import Any

from . import Batch

__all__ = ["Stats", "batch_html"]

SHEET_SAMPLES: int

class Stats(dict[str, Any]):
    """A loader's figures by name; they print as a table, also in notebooks."""

    def __str__(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def rows(self) -> list[tuple[str, str]]: ...

def shown(value: Any) -> str: ...
def batch_html(batch: Batch) -> str: ...
