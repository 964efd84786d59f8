"""WebDataset in its WebLoader. It has no state: what is left is to take the batches before once more."""

import os

import torch
import webdataset

from loaders import WEIGHTS
from loaders.pictures import Augment, collated, numpy

BUFFER = 32


class Decode:
    def __init__(self, size):
        self.augment = Augment(size)

    def __call__(self, sample):
        return int(sample["__key__"]), self.augment(sample["jpg"])


class WebDataset:
    title = "WebDataset"
    packages = ("webdataset",)
    formats = ("tar",)
    docs = "https://github.com/webdataset/webdataset/issues/234"
    other_ranks = False
    worker_drops = True

    def __init__(self, setup):
        torch.manual_seed(setup.seed)
        # split_by_node reads these.
        os.environ.update(RANK=str(setup.rank), WORLD_SIZE=str(setup.world))
        parts = []
        for name in setup.names:
            tars = sorted(map(str, (setup.folder / name / "tar").glob("*.tar")))
            part = webdataset.WebDataset(
                tars, shardshuffle=100, detshuffle=True, seed=setup.seed, nodesplitter=webdataset.split_by_node
            )
            parts.append(part.compose(webdataset.detshuffle(BUFFER, BUFFER, setup.seed)).map(Decode(setup.size)))
        dataset = webdataset.RandomMix(parts, list(WEIGHTS)) if setup.mixed else parts[0]
        self.loader = webdataset.WebLoader(
            dataset, batch_size=setup.batch, num_workers=setup.workers, collate_fn=collated, drop_last=True
        )
        self.skipped = 0

    def batches(self):
        while True:
            for batch in self.loader:
                if self.skipped:
                    self.skipped -= 1
                else:
                    yield numpy(batch)

    def state(self):
        """Raises an AttributeError: there is none."""
        return self.loader.state_dict()

    def skip(self, batches):
        self.skipped = batches
