"""Rates of batches and bytes."""

from __future__ import annotations

import collections
import time


class Statistics:
    """Counts batches and bytes, and their rates."""

    def __init__(self, horizon: int = 1000):
        self.horizon = horizon
        self.reset()

    def reset(self) -> None:
        """Begins again."""
        self.start = self.last = time.monotonic()
        self.count = 0
        self.total: float = 0
        self.recent: collections.deque[tuple[float, float]] = collections.deque(maxlen=self.horizon)

    def add(self, x: float) -> None:
        """Adds one batch of `x` bytes."""
        self.last = time.monotonic()
        self.count += 1
        self.total += x
        self.recent.append((self.last, x))

    def rate(self) -> float:
        """Batches a second since the start."""
        return _per_second(self.count, self.last - self.start)

    def throughput(self) -> float:
        """Bytes a second since the start."""
        return _per_second(self.total, self.last - self.start)

    def recent_rate(self) -> float:
        """Batches a second over the last `horizon` batches."""
        return _per_second(len(self.recent) - 1, self._span())

    def recent_throughput(self) -> float:
        """Bytes a second over the last `horizon` batches."""
        # What came first came before the span.
        return _per_second(sum(x for _, x in list(self.recent)[1:]), self._span())

    def summary(self) -> str:
        """The recent figures, for people."""
        return f"rate {self.recent_rate():1f} msg/s throughput {self.recent_throughput():.2e} bytes/s"

    def _span(self) -> float:
        return self.recent[-1][0] - self.recent[0][0] if self.recent else 0.0


def _per_second(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
