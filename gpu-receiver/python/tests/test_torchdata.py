"""torchdata: a loader inside a StatefulDataLoader, in its process."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")


class Batches(torch.utils.data.IterableDataset):
    """As docs/python.md has it."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        yield from self.loader

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)


def dataloader(loader):
    return stateful.StatefulDataLoader(Batches(loader), batch_size=None, num_workers=0)


@pytest.mark.filterwarnings("ignore")
def test_it_gives_the_loaders_batches(make):
    assert [b.keys for b in dataloader(make())] == [b.keys for b in make()]


@pytest.mark.filterwarnings("ignore")
def test_it_goes_on_in_mid_epoch_with_the_next_batch(make):
    whole = [batch.digest for batch in make()]
    stopped = dataloader(make())
    seen = []
    for batch in stopped:
        seen.append(batch.digest)
        if len(seen) == 5:
            state = stopped.state_dict()
            break
    resumed = dataloader(make())
    resumed.load_state_dict(state)
    rest = [batch.digest for batch in resumed]
    assert len(rest) == 11
    assert seen + rest == whole
