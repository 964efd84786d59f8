"""Batches of several loaders in one run, as DINOv3's training at several resolutions takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, StateError

if TYPE_CHECKING:
    from . import Batch, Loader

__all__ = ["CombinedLoader"]


class CombinedLoader:
    """One batch after the other, each of a loader that is drawn by `ratios`.

    Which loader a step takes follows from `seed` and the step, so that all ranks take the same one, and is what
    `CombinedDataLoader` of facebookresearch/dinov3 draws from that seed in its mode `GLOBAL_HOMOGENEOUS`. `ratios` are
    relative to their sum. A loader that is at the end of its epoch begins its next one, so the iteration has no end: one
    that was opened with `epochs` says that it has no further one. Needs NumPy.
    """

    def __init__(self, loaders: Sequence[Loader], ratios: Sequence[float], *, seed: int = 65537):
        if not loaders or len(loaders) != len(ratios):
            raise ConfigError(f"{len(loaders)} loaders and {len(ratios)} ratios: give a ratio for each loader, of 1 or more")
        if not all(0 <= ratio < float("inf") for ratio in ratios) or not sum(ratios) > 0:
            raise ConfigError(f"ratios are {list(ratios)}: give numbers from 0 on, at least one of them above")
        self.loaders = tuple(loaders)
        self.ratios = tuple(float(ratio) for ratio in ratios)
        self.seed = seed
        self._step = 0
        self._iterations: list[Iterator[Batch]] = [iter(())] * len(loaders)

    @property
    def step(self) -> int:
        """Batches that were given out, in all runs."""
        return self._step

    def loader_of(self, step: int) -> int:
        """Number of the loader that a step takes."""
        return int(self._drawn(step, 1)[0])

    def _drawn(self, first: int, steps: int) -> Any:
        """Numbers of the loaders that steps take."""
        import numpy

        bits = numpy.random.PCG64(self.seed)
        bits.advance(first)
        share = numpy.cumsum(self.ratios)
        return (share / share[-1]).searchsorted(numpy.random.Generator(bits).random(steps), side="right")

    def seek(self, step: int) -> None:
        """Goes to a step of a run, and each loader to the batch that the run takes of it next. It counts from epoch 0 of the
        loaders, so they must have been opened as at the run's begin."""
        import numpy

        taken = numpy.bincount(self._drawn(0, step), minlength=len(self.loaders)).tolist()
        for loader, batches in zip(self.loaders, taken):
            loader.seek(*divmod(batches, len(loader)))
        self._step = step
        self._iterations = [iter(())] * len(self.loaders)

    def __iter__(self) -> _Batches:
        return _Batches(self)

    def _next(self) -> Batch:
        number = self.loader_of(self._step)
        batch = next(self._iterations[number], None)
        if batch is None:
            self._iterations[number] = iter(self.loaders[number])
            batch = next(self._iterations[number], None)
        if batch is None:
            raise ConfigError(f"loader {number} has no further epoch at step {self._step}: open it with more `epochs`, or without")
        self._step += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch is, of each loader too. On ranks of another number it is loaded as that of a loader."""
        loaders = [loader.state_dict() for loader in self.loaders]
        return {"step": self._step, "seed": self.seed, "ratios": list(self.ratios), "loaders": loaders}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where a state was taken.

        Raises:
            StateError: It is not a combined loader's, or of another seed, of other ratios, or of another number of loaders.
        """
        lacking = [name for name in ("seed", "ratios", "step", "loaders") if name not in state]
        if lacking:
            raise StateError(f"a combined loader's state has `{lacking[0]}`, and this one does not: a loader's own goes into that loader")
        for name, here in (("seed", self.seed), ("ratios", list(self.ratios))):
            if state[name] != here:
                raise StateError(f"the state's {name} is {state[name]}, here it is {here}: give the same to go on")
        for loader, of_loader in zip(self.loaders, state["loaders"]):
            loader.load_state_dict(of_loader)
        self._step = state["step"]
        self._iterations = [iter(())] * len(self.loaders)

    def close(self) -> None:
        """Closes the loaders."""
        for loader in self.loaders:
            loader.close()

    def __enter__(self) -> CombinedLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Batches:
    """An iteration. After an error that may pass it goes on when it is asked again."""

    def __init__(self, combined: CombinedLoader):
        self._combined = combined
        self._is_closed = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Batch:
        if self._is_closed:
            raise StopIteration
        return self._combined._next()

    def close(self) -> None:
        """Ends this iteration. The next one goes on with the next batch."""
        self._is_closed = True
