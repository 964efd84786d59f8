"""The loaders that resume.py, start.py and memory.py compare, all with one interface.

Each file holds one library. A `Loader` gives batches of (ids, images) of one rank, epoch after epoch, and has a state
if its library has one. Photographs are cut by a random resized crop and flipped at random; each library draws these
random numbers as its own documentation does it. Deliberately absent: any repair of what a library does not offer.
"""

import dataclasses
import importlib
import pathlib

# Module below this package, and class. The order is that of the tables.
LOADERS = {
    "headwater": ("headwater_loader", "Headwater"),
    "torchdata": ("torchdata_loader", "Torchdata"),
    "torchdata-rng": ("torchdata_loader", "TorchdataWithRng"),
    "streaming": ("streaming_loader", "Streaming"),
    "grain": ("grain_loader", "Grain"),
    "litdata": ("litdata_loader", "LitData"),
    "datasets": ("datasets_loader", "Datasets"),
    "datasets-1": ("datasets_loader", "DatasetsOneShard"),
    "webdataset": ("webdataset_loader", "WebDataset"),
}


@dataclasses.dataclass
class Setup:
    """What a loader is opened with."""

    # Holds `a` and `b`, each with shards in every library's format: see data.py.
    folder: pathlib.Path
    # One dataset, or two that are mixed by WEIGHTS.
    mixed: bool
    # Samples of a batch of this rank.
    batch: int
    rank: int = 0
    world: int = 1
    # Processes or threads beside the trainer.
    workers: int = 2
    seed: int = 17
    # Height and width of an image, in pixels.
    size: int = 64

    @property
    def names(self):
        return ("a", "b") if self.mixed else ("a",)


WEIGHTS = (0.75, 0.25)


class Stateful:
    """A loader whose library's `self.loader` has a state_dict."""

    def state(self):
        return self.loader.state_dict()

    def load(self, state):
        self.loader.load_state_dict(state)


def loader_class(name):
    module, kind = LOADERS[name]
    return getattr(importlib.import_module(f"loaders.{module}"), kind)
