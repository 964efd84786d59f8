"""torchdata: a loader inside a StatefulDataLoader, in its process."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

from headwater.torch import IterableDataset  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4


def dataloader(loader):
    return stateful.StatefulDataLoader(IterableDataset(loader), batch_size=None, num_workers=0)


def keys(batch):
    return (batch.epoch, [sample.key for sample in batch.samples])


def expected(make):
    loader = make()
    return [(batch.epoch, batch.keys) for _ in range(3) for batch in loader]


@pytest.mark.filterwarnings("ignore")
def test_it_gives_the_loaders_batches(make):
    batches = dataloader(make())
    assert len(batches) == STEPS
    assert [keys(batch) for _ in range(3) for batch in batches] == expected(make)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("taken", [5, STEPS, STEPS + 1, 2 * STEPS - 1])
def test_it_goes_on_with_the_next_batch(make, taken):
    stopped, seen = dataloader(make()), []
    while len(seen) < taken:
        for batch in stopped:
            seen.append(keys(batch))
            if len(seen) == taken:
                state = stopped.state_dict()
                break
    resumed = dataloader(make())
    resumed.load_state_dict(state)
    while len(seen) < 3 * STEPS:
        seen += [keys(batch) for batch in resumed]
    assert seen == expected(make)


@pytest.mark.filterwarnings("ignore")
def test_a_state_of_an_epoch_that_is_over_goes_on_with_the_next(make):
    stopped = dataloader(make())
    seen = [keys(batch) for batch in stopped]
    state = stopped.state_dict()
    resumed = dataloader(make())
    resumed.load_state_dict(state)
    while len(seen) < 2 * STEPS:
        seen += [keys(batch) for batch in resumed]
    assert seen == expected(make)[: 2 * STEPS]
