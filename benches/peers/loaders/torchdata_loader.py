"""torchdata's StatefulDataLoader over a map-style dataset that reads tars into memory."""

import torch
from torch.utils.data import ConcatDataset, Dataset, Sampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from loaders import WEIGHTS
from loaders.data import B_BEGINS, photos
from loaders.pictures import Augment, OnTorch, collated


class Photos(Dataset):
    def __init__(self, folder, begin, size):
        self.jpegs = list(photos(sorted(folder.glob("*.tar"))))
        self.begin = begin
        self.augment = Augment(size)

    def __len__(self):
        return len(self.jpegs)

    def __getitem__(self, index):
        return self.begin + index, self.augment(self.jpegs[index])


class WithRng(Dataset):
    """Keeps the state of the worker's random numbers, as the tutorial of StatefulDataLoader says."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index]

    def state_dict(self):
        return {"rng": torch.get_rng_state()}

    def load_state_dict(self, state):
        torch.set_rng_state(state["rng"])


class Mixed(Sampler):
    """Draws from several datasets by weights, anew in each epoch, and gives each rank its slice, as DistributedSampler."""

    def __init__(self, weights, setup):
        self.weights = torch.tensor(weights)
        self.setup = setup
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.weights) // self.setup.world

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.setup.seed + self.epoch)
        drawn = torch.multinomial(self.weights, len(self.weights), replacement=True, generator=generator)
        return iter(drawn[self.setup.rank :: self.setup.world].tolist())


class Torchdata(OnTorch):
    title = "StatefulDataLoader"
    packages = ("torchdata", "torch", "torchvision")
    formats = ("tar",)
    docs = "https://pytorch.org/data/0.11/stateful_dataloader_tutorial.html"
    other_ranks = False

    def __init__(self, setup):
        torch.manual_seed(setup.seed)
        begins = {"a": 0, "b": B_BEGINS}
        parts = [Photos(setup.folder / name / "tar", begins[name], setup.size) for name in setup.names]
        dataset = ConcatDataset(parts)
        if setup.mixed:
            weights = [weight / len(part) for weight, part in zip(WEIGHTS, parts) for _ in range(len(part))]
            self.counts_epochs = Mixed(weights, setup)
        else:
            self.counts_epochs = StatefulDistributedSampler(
                dataset, setup.world, setup.rank, seed=setup.seed, drop_last=True
            )
        self.loader = StatefulDataLoader(
            self.wrapped(dataset),
            setup.batch,
            sampler=self.counts_epochs,
            num_workers=setup.workers,
            drop_last=True,
            collate_fn=collated,
        )

    def wrapped(self, dataset):
        return dataset


class TorchdataWithRng(Torchdata):
    title = "StatefulDataLoader, RNG kept"

    def wrapped(self, dataset):
        return WithRng(dataset)
