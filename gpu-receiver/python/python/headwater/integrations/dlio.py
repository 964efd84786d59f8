"""A loader in `dlio_benchmark`, the suite behind MLPerf Storage.

    dlio_benchmark workload=resnet50 \\
        ++workload.reader.data_loader_classname=headwater.integrations.dlio.HeadwaterLoader \\
        ++workload.reader.data_loader_sampler=iterative

A loader over the services of a cluster is a class of your own that names them:

    class OnCluster(HeadwaterLoader):
        keywords = {"storage": ["node1:7401"], "workers": ["node2:7402"], "datasets": "train"}
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from .. import Loader
from ..errors import ConfigError
from ..sampling import BatchIterator

try:
    from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
    from dlio_benchmark.utils.utility import DLIOMPI
except ModuleNotFoundError:  # Tools that read every module, such as stubtest, do not need it.
    BaseDataLoader = object
    DLIOMPI = None

__all__ = ["HeadwaterLoader"]

IMAGES = ("jpeg", "png")
# The array of a sample, by the format that DLIO generates.
ARRAYS = {"hdf5": "records", "tfrecord": "image", "npz": "x"}


class HeadwaterLoader(BaseDataLoader):
    """Serves the files of a DLIO dataset, as DLIO generates and names them, in the formats jpeg, png, npz, hdf5 and tfrecord.

    Images are decoded to RGB and resized to a square, as Pillow does it with its bilinear filter: `u8[batch, 3, side, side]`. With
    `record_length_resize` the square has that number of bytes, else it has the side of the generated images. Arrays are handed
    out whole: `u8[batch, side, side]` if all records have one size, else a pair of `u8[batch, largest]` and of the sizes, `i64[batch]`.

    Batches are PyTorch's tensors under `framework: pytorch`, else NumPy's arrays; they share the memory of the batch. DLIO's
    `read_threads`, `prefetch_size`, `batch_size`, `epochs`, `seed` and its two keys for shuffling keep their meaning. An epoch has
    another order than with DLIO's own loaders: samples are mixed over all ranks, and every epoch anew.

    `keywords` of a subclass go to `headwater.Loader`, before what is read from DLIO's configuration. With `storage`, the files are those
    of the services, and they must be the dataset that DLIO's configuration describes.

    Raises `ConfigError` for other formats and for datasets in an object store.
    """

    keywords: ClassVar[dict[str, Any]] = {}

    def __init__(self, format_type: Any, dataset_type: Any, epoch_number: int) -> None:
        if BaseDataLoader is object:
            raise ConfigError("HeadwaterLoader runs in dlio_benchmark, which is not installed: `pip install dlio_benchmark`")
        super().__init__(format_type, dataset_type, epoch_number, None)
        self._format = str(format_type)
        self._loader: Loader | None = None
        self._left = self._args.epochs if self._trains else self._evaluations()

    @property
    def _trains(self) -> bool:
        return str(self.dataset_type) == "train"

    def read(self) -> None:
        """Opens the loader. DLIO calls it once, before the first epoch."""
        served = "storage" in self.keywords or "ray" in self.keywords
        given = {} if served else self._files()
        self._loader = Loader(**{**given, **self._batches(), **self._recipe(), **self.keywords})

    def next(self) -> Iterator[Any]:
        """The batches of an epoch, each as soon as it is there. DLIO iterates over it once per epoch."""
        if self._loader is None:
            raise ConfigError("HeadwaterLoader has not been opened: call `read()` first")
        return _Epoch(self._loader, self._converted, self._count_epoch)

    def _converted(self, batch: Any) -> Any:
        as_torch = str(self._args.framework) == "pytorch"
        return self._shaped(lambda name: batch[name].torch() if as_torch else batch[name].numpy())

    def _count_epoch(self) -> None:
        self.epoch_number += 1

    def finalize(self) -> None:
        """Closes the loader after the last epoch, or the last evaluation. DLIO calls it at the end of each."""
        self._left -= 1
        if self._left <= 0 and self._loader is not None:
            self._loader.close()

    def _evaluations(self) -> int:
        """How often DLIO evaluates: first after `eval_after_epoch`, then every `epochs_between_evals` epochs."""
        epochs = range(max(self._args.eval_after_epoch, 1), self._args.epochs + 1, max(self._args.epochs_between_evals, 1))
        return len(epochs)

    def _names(self) -> list[str]:
        """The dataset's files in the order of their names: DLIO shuffles its own list."""
        names = self._args.file_list_train if self._trains else self._args.file_list_eval
        return sorted(os.path.abspath(name) for name in names)

    def _files(self) -> dict[str, Any]:
        """Keywords that name the files."""
        stored = str(self._args.storage_type)
        if stored != "local_fs":
            raise ConfigError(
                f"HeadwaterLoader reads DLIO's files from a file system, and DLIO's `storage_type` is {stored}: set it to local_fs, or "
                "give `storage` and `workers` in `keywords` of a subclass"
            )
        names = self._names()
        dataset: dict[str, Any] = {"name": "train" if self._trains else "valid"}
        if self._format == "npz":
            # The last axis has the samples, so a sample's bytes do not lie together in the file.
            data: Any = "python:headwater.integrations._dlio_npz:Samples"
            folder = os.path.commonpath([os.path.dirname(name) for name in names])
            dataset["arguments"] = {
                "folder": folder,
                "names": [os.path.relpath(name, folder) for name in names],
                "samples_per_file": self._args.num_samples_per_file,
            }
            # A shard is made as a whole when the first of its samples is read.
            dataset["shard_samples"] = 8
            dataset["sample_bytes_max"] = max(self._largest(), 1)
        else:
            data = names
            if self._format in ("hdf5", "tfrecord"):
                dataset["format"] = self._format
            if self._format == "hdf5":
                dataset["columns"] = [ARRAYS["hdf5"]]
        # Each rank of a host has this number of workers with DLIO's loader; here the ranks share one.
        threads = min(self._args.read_threads * DLIOMPI.get_instance().npernode(), len(os.sched_getaffinity(0)))
        return {"data": data, "datasets": dataset, **({"augment_threads": threads} if threads else {})}

    def _batches(self) -> dict[str, Any]:
        """Keywords on batches, order and ranks."""
        args = self._args
        shuffled = str(args.file_shuffle) != "off" or str(args.sample_shuffle) != "off"
        keywords: dict[str, Any] = {
            "batch_size": self.batch_size,
            "rank": args.my_rank,
            "world_size": args.comm_size,
            "seed": args.seed,
            "shuffle": shuffled,
            "label_field": "",
        }
        if self._trains:
            keywords["epochs"] = self._args.epochs
        if args.prefetch_size > 0:
            keywords["window_batches"] = args.prefetch_size
        return keywords

    def _recipe(self) -> dict[str, Any]:
        """The recipe of the format, and the field that it reads."""
        if self._format in IMAGES:
            view = {"crop": {"kind": "resize"}}
            side = self._side()
            tensor = {"name": "images", "dtype": "u8", "height": side, "width": side, "views": [view]}
            return {"recipe": {"preset": "custom", "interpolation": "bilinear", "tensors": [tensor]}}
        if self._format not in ARRAYS:
            formats = ", ".join((*IMAGES, *ARRAYS))
            raise ConfigError(f"HeadwaterLoader does not read `dataset.format` {self._format}: choose one of {formats}")
        return {"recipe": {"preset": "raw", "raw_bytes_max": self._largest()}, "image_field": ARRAYS[self._format]}

    def _side(self) -> int:
        """Side of the square that images become. DLIO counts bytes, and a pixel has three."""
        resized = self._args.record_length_resize
        return math.isqrt(int(resized) // 3) if resized > 0 else self._args.dimension

    def _varies(self) -> bool:
        return self._args.record_length_stdev > 0

    def _largest(self) -> int:
        """Bytes of the largest sample."""
        if not self._varies():
            return int(self._args.dimension) ** 2
        if str(self._args.compression) != "none":
            raise ConfigError(
                "HeadwaterLoader cannot tell the largest record of compressed files whose records differ in size: set "
                "DLIO's `record_length_stdev` to 0, or its `compression` to none"
            )
        # Samples of one file have one size, and a file is never smaller than they are.
        return max(os.path.getsize(name) for name in self._names()) // self._args.num_samples_per_file

    def _shaped(self, tensor: Any) -> Any:
        if self._format in IMAGES:
            return tensor("images")
        if self._varies():
            return tensor("image_bytes"), tensor("image_sizes")
        side = int(self._args.dimension)
        return tensor("image_bytes").reshape(-1, side, side)


class _Epoch(BatchIterator):
    """The batches of an epoch, whose end is counted once."""

    def __init__(self, loader: Loader, convert: Callable[[Any], Any], on_end: Callable[[], None]):
        super().__init__(loader, convert)
        self._on_end: Callable[[], None] | None = on_end

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            if self._on_end is not None:
                self._on_end()
                self._on_end = None
            raise

    def close(self) -> None:
        self._on_end = None
        super().close()
