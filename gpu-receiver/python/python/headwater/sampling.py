"""What frameworks read of a loader besides its batches: PyTorch's names for the epoch and the number of samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Union

if TYPE_CHECKING:
    from . import CombinedLoader, Loader

__all__ = ["BatchIterator", "BatchSampler", "Dataset", "LoaderWrapper", "Sampler"]


class Sampler:
    """The epoch of a loader, as of a `DistributedSampler`: Lightning calls `loader.sampler.set_epoch`."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, as `headwater.Loader.set_epoch`. An epoch before that of a loaded state is
        refused with the first batch, as frameworks count epochs that they take no batch of; a loader with `epochs=1`
        has the same epoch each time."""
        self._loader._follow_epoch(epoch)

    @property
    def batch_size(self) -> int:
        """Samples in this rank's batch."""
        return self._loader.batch_size

    def __len__(self) -> int:
        """This rank's samples in an epoch; fewer where the last batch is short."""
        return len(self._loader) * self._loader.batch_size

    def __iter__(self) -> NoReturn:
        raise TypeError("the order of samples is the loader's: iterate over the headwater.Loader")


class BatchSampler(Sampler):
    """The batches of a loader, as of PyTorch's `BatchSampler`: how many there are, and their size."""

    @property
    def sampler(self) -> Sampler:
        """The loader's `Sampler`."""
        return self._loader.sampler

    @property
    def drop_last(self) -> bool:
        """Whether samples that do not fill the last batch are left out."""
        return self._loader.drop_last

    def __len__(self) -> int:
        """This rank's batches in an epoch."""
        return len(self._loader)


class Dataset:
    """The number of samples of all datasets together; the samples themselves come in batches."""

    def __init__(self, samples: int):
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: object) -> NoReturn:
        raise TypeError("samples come in batches: iterate over the headwater.Loader")


class LoaderWrapper:
    """A loader in a framework's hands: all that training code calls besides the batches, handed on to the loader.

    A subclass has an `__iter__` that converts the batches.
    """

    def __init__(self, loader: Loader):
        self.loader = loader

    def __len__(self) -> int:
        """Steps of an epoch, the same on every rank."""
        return len(self.loader)

    @property
    def sampler(self) -> Sampler:
        """Where frameworks look for `set_epoch`."""
        return self.loader.sampler

    @property
    def batch_sampler(self) -> BatchSampler:
        """Where frameworks look for the batches of an epoch and their size."""
        return self.loader.batch_sampler

    @property
    def step(self) -> int:
        """Batches of the epoch that came, also before a state was taken that was loaded."""
        return self.loader.step

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration: the whole epoch, or the rest of it after `load_state_dict`. Raises
        `ConfigError` for an epoch before that of a state that was loaded and not iterated yet."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, as in `headwater.Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration continue where the state was taken."""
        self.loader.load_state_dict(state_dict)

    def resume(self, state_dict: Mapping[str, Any]) -> int:
        """Loads a state, and returns the epoch to go on with: the next one, where the state's epoch has no batch left."""
        self.load_state_dict(state_dict)
        return self.loader.epoch

    def close(self) -> None:
        """Closes the loader and its services."""
        self.loader.close()


class DataLoaderWrapper(LoaderWrapper):
    """A loader in the place of PyTorch's `DataLoader`, with the attributes of it that repositories read."""

    @property
    def dataset(self) -> Dataset:
        """The number of samples, as `len(loader.dataset)`."""
        return self.loader.dataset

    @property
    def batch_size(self) -> int:
        """Samples in this rank's batch."""
        return self.loader.batch_size


class BatchIterator(Iterator[Any]):
    """An iteration over a loader's batches, where each is converted.

    An error does not end it, as it would end a generator: after one that may pass, the next call goes on. A batch whose
    conversion raised is kept, and the next call converts it again. The loader's state counts that batch as taken.

    Args:
        loader: whose batches come.
        convert: gets a batch, and returns what is handed out.
        is_endless: whether the next epoch follows where one ends.
    """

    def __init__(self, loader: Union[Loader, CombinedLoader], convert: Callable[[Any], Any], *, is_endless: bool = False):
        self._loader = loader
        self._convert = convert
        self._is_endless = is_endless
        self._batches: Any = iter(loader)
        # Threads may share an iteration: then more than one conversion may have raised.
        self._kept: deque[Any] = deque()

    def __next__(self) -> Any:
        batch = self._kept.popleft() if self._kept else self._taken()
        try:
            return self._convert(batch)
        except BaseException:
            self._kept.append(batch)
            raise

    def _taken(self) -> Any:
        while True:
            try:
                return next(self._batches)
            except StopIteration:
                if not self._is_endless:
                    raise
            self._batches = iter(self._loader)

    def close(self) -> None:
        """Ends the iteration before its end; the loader may then be iterated again."""
        self._is_endless = False
        self._kept.clear()
        self._batches.close()


def tuples(loader: Loader) -> BatchIterator:
    """The batches of an iteration as tuples of PyTorch's tensors, in the order of the recipe."""
    return BatchIterator(loader, lambda batch: tuple(batch.torch().values()))


def epochs(loader: Loader, first: int, end: int) -> Iterator[int]:
    """Each epoch of `first` to `end`, set before it is given."""
    for epoch in range(first, end):
        loader.set_epoch(epoch)
        yield epoch
