"""How batches and figures are displayed."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import Batch

__all__ = ["Stats", "batch_html"]

# Samples of a notebook's contact sheet.
SHEET_SAMPLES = 4


class Stats(dict):
    """A loader's figures by name; they print as a table, also in notebooks.

    >>> print(loader.stats())
    batches             12
    samples            384
    ..
    """

    def __str__(self) -> str:
        rows = self.rows()
        names = max((len(name) for name, _ in rows), default=0)
        values = max((len(value) for _, value in rows), default=0)
        return "\n".join(f"{name:<{names}}  {value:>{values}}" for name, value in rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.rows()
        )
        return f"<table>{cells}</table>"

    def rows(self) -> list[tuple[str, str]]:
        """Name and figure of each row; groups have names such as `group.name`."""
        rows = []
        for name, value in self.items():
            inner = value if isinstance(value, dict) else {None: value}
            rows += [(f"{name}.{key}" if key else name, shown(one)) for key, one in inner.items()]
        return rows


def shown(value: Any) -> str:
    """A figure in readable form; `-` if there is none yet."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def batch_html(batch: Batch) -> str:
    """The batch's summary, its first keys and labels, and their contact sheet."""
    shown_samples = batch.samples[:SHEET_SAMPLES]
    rows = "".join(
        f"<tr><td>{escape(sample.key)}</td><td>{sample.label}</td></tr>" for sample in shown_samples
    )
    table = f"<table><tr><th>key</th><th>label</th></tr>{rows}</table>"
    try:
        png = base64.b64encode(batch.contact_sheet(SHEET_SAMPLES)).decode()
        sheet = f'<img alt="contact sheet" src="data:image/png;base64,{png}">'
    except ValueError:
        # A recipe without images has no picture.
        sheet = ""
    return f"<p>{escape(repr(batch))}</p>{table}{sheet}"
