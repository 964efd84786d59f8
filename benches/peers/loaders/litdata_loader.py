"""LitData: StreamingDataLoader over an optimized dataset, with a transform."""

import litdata
import torch

from loaders import WEIGHTS
from loaders.pictures import Augment, OnTorch, collated, join_group


class Decode:
    def __init__(self, size):
        self.augment = Augment(size)

    def __call__(self, sample):
        return sample["id"], self.augment(sample["jpg"])


class LitData(OnTorch):
    title = "LitData"
    packages = ("litdata",)
    formats = ("litdata",)
    docs = "https://lightning.ai/docs/litdata/features/mulit-gpu-multi-node"
    # Of a StreamingDataset; a CombinedStreamingDataset raises.
    other_ranks = True
    other_ranks_mixed = False

    def __init__(self, setup):
        torch.manual_seed(setup.seed)
        join_group(setup.rank, setup.world)
        parts = [
            litdata.StreamingDataset(
                str(setup.folder / name / "litdata"),
                shuffle=True,
                drop_last=True,
                seed=setup.seed,
                transform=Decode(setup.size),
            )
            for name in setup.names
        ]
        dataset = parts[0]
        if setup.mixed:
            dataset = litdata.CombinedStreamingDataset(
                parts, seed=setup.seed, weights=WEIGHTS, iterate_over_all=False
            )
        self.loader = litdata.StreamingDataLoader(
            dataset, batch_size=setup.batch, num_workers=setup.workers, collate_fn=collated
        )
