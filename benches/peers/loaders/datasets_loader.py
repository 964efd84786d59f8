"""Hugging Face `datasets`: an IterableDataset of Parquet files in a StatefulDataLoader, as its page on streaming says."""

import datasets
import torch
from datasets.distributed import split_dataset_by_node
from torchdata.stateful_dataloader import StatefulDataLoader

from loaders import WEIGHTS
from loaders.pictures import Augment, OnTorch, collated

# Samples of the shuffle buffer: each worker refills it after a resume.
BUFFER = 32


class Decode:
    def __init__(self, size):
        self.augment = Augment(size)

    def __call__(self, sample):
        return {"id": sample["id"], "image": self.augment(sample["jpg"])}


def batched(samples):
    return collated([(sample["id"], torch.as_tensor(sample["image"])) for sample in samples])


class Datasets(OnTorch):
    title = "Hugging Face datasets"
    packages = ("datasets", "torchdata")
    formats = ("parquet",)
    docs = "https://huggingface.co/docs/datasets/stream#save-a-dataset-checkpoint-and-resume-iteration"
    other_ranks = False
    # Of shuffle(): by default the buffer is filled from up to ten shards at once.
    shuffle = {}

    def __init__(self, setup):
        torch.manual_seed(setup.seed)
        parts = [
            datasets.load_dataset(
                "parquet", data_files=f"{setup.folder}/{name}/parquet/*.parquet", split="train", streaming=True
            ).shuffle(seed=setup.seed, buffer_size=BUFFER, **self.shuffle)
            for name in setup.names
        ]
        dataset = parts[0]
        if setup.mixed:
            dataset = datasets.interleave_datasets(parts, probabilities=list(WEIGHTS), seed=setup.seed)
        dataset = dataset.map(Decode(setup.size), remove_columns=["jpg"])
        self.counts_epochs = split_dataset_by_node(dataset, setup.rank, setup.world)
        self.loader = StatefulDataLoader(
            self.counts_epochs, setup.batch, num_workers=setup.workers, drop_last=True, collate_fn=batched
        )


class DatasetsOneShard(Datasets):
    title = "datasets, one input shard"
    shuffle = {"max_buffer_input_shards": 1}
