"""Lightning with its own launcher: the ranks begin with the first `fit`, and loaders are made in `train_dataloader`."""

import lightning
from images import BATCH, Images, loader
from loops import lightning as plain
from torch.utils.data import DataLoader

NAME = "Lightning"
PACKAGES = ("lightning",)


class Data(lightning.LightningDataModule):
    """Makes a loader for each `fit`."""

    def __init__(self, kind, folder):
        super().__init__()
        self.kind, self.folder, self.made = kind, folder, []

    def train_dataloader(self):
        if self.kind == "pytorch":
            # Lightning divides it among ranks.
            return DataLoader(Images(self.folder), batch_size=BATCH, shuffle=True, drop_last=True)
        self.made.append(loader(self.folder))
        return self.made[-1]

    def close(self):
        for one in self.made:
            one.close()


def opened(kind, folder):
    return Data(kind, folder)


train = plain.train
