"""Mosaic Streaming: its StreamingDataLoader over a dataset that decodes in `__getitem__`."""

import torch
from streaming import Stream, StreamingDataLoader, StreamingDataset

from loaders import WEIGHTS
from loaders.pictures import Augment, OnTorch, collated, join_group


class Photos(StreamingDataset):
    def __init__(self, size, **options):
        super().__init__(**options)
        self.augment = Augment(size)

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return sample["id"], self.augment(sample["jpg"])


class Streaming(OnTorch):
    title = "Mosaic Streaming"
    packages = ("mosaicml-streaming",)
    formats = ("mds",)
    docs = "https://docs.mosaicml.com/projects/streaming/en/latest/distributed_training/fast_resumption.html"
    # "Elastic determinism", for a number of canonical nodes that stays the same.
    other_ranks = True

    def __init__(self, setup):
        torch.manual_seed(setup.seed)
        join_group(setup.rank, setup.world)
        shares = WEIGHTS if setup.mixed else (None,)
        streams = [
            Stream(local=str(setup.folder / name / "mds"), proportion=share) for name, share in zip(setup.names, shares)
        ]
        dataset = Photos(
            setup.size,
            streams=streams,
            shuffle=True,
            shuffle_seed=setup.seed,
            batch_size=setup.batch,
            num_canonical_nodes=1,
        )
        self.loader = StreamingDataLoader(
            dataset, batch_size=setup.batch, num_workers=setup.workers, drop_last=True, collate_fn=collated
        )
