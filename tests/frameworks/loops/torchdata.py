"""The same loop with torchdata's StatefulDataLoader, around both."""

from headwater.torch import IterableDataset
from images import Images, dataloader, loader
from loops.pytorch import train as loop
from scenarios import Plan, Step
from torchdata.stateful_dataloader import StatefulDataLoader

NAME = "torchdata"
PACKAGES = ("torchdata",)


def opened(kind, folder):
    if kind == "headwater":
        return StatefulDataLoader(IterableDataset(loader(folder)), batch_size=None, num_workers=0)
    return dataloader(Images(folder), StatefulDataLoader)


def train(loader, plan: Plan) -> list[Step]:
    return loop(loader, plan)
