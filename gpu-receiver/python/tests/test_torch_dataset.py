"""headwater.torch: a loader in PyTorch's DataLoader, torchdata's and Accelerate's."""

import pickle

import headwater
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from headwater.torch import IterableDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4


def keys(batch):
    return (batch.epoch, batch.step, [sample.key for sample in batch.samples])


def expected(make, epochs=2, **options):
    loader = make(**options)
    return [(batch.epoch, batch.step, batch.keys) for _ in range(epochs) for batch in loader]


def batches(make, **options):
    return DataLoader(IterableDataset(make(**options)), batch_size=None, num_workers=0)


def test_a_dataloader_gives_every_batch_whole_and_without_a_copy(make):
    loader = make()
    dataloader = DataLoader(IterableDataset(loader), batch_size=None, num_workers=0)
    assert len(dataloader) == len(dataloader.dataset) == STEPS
    direct = expected(make)
    taken = []
    for _ in range(2):
        for batch in dataloader:
            assert isinstance(batch, headwater.TorchBatch) and batch.global_crops.shape == (8, 3, 32, 32)
            taken.append(keys(batch))
    assert taken == direct
    # No batch is kept beyond its step: there are fewer slots than batches.
    few = batches(make, window_batches=1, slots_max=2)
    assert [batch.step for batch in few] == list(range(STEPS))


def test_epochs_and_states_are_the_loaders(make):
    dataset = IterableDataset(make())
    direct = expected(make, epochs=4)
    dataset.set_epoch(3)
    assert [keys(batch) for batch in dataset] == direct[3 * STEPS :]
    dataset.set_epoch(1)
    for batch in dataset:
        if batch.step == 6:
            break
    state = dataset.state_dict()
    resumed = IterableDataset(make())
    resumed.load_state_dict(state)
    resumed.set_epoch(1)
    assert [keys(batch) for batch in resumed] == direct[STEPS + 7 : 2 * STEPS]


def test_an_epoch_before_that_of_a_loaded_state_is_refused(make):
    state = {**make().state_dict(), "epoch": 2}
    dataset = IterableDataset(make())
    dataset.load_state_dict(state)
    with pytest.raises(headwater.ConfigError, match=r"set_epoch\(0\): a state of epoch 2, step 0 was loaded"):
        dataset.set_epoch(0)
    # A framework may count an epoch that it takes no batch of.
    dataset.sampler.set_epoch(0)
    with pytest.raises(headwater.ConfigError, match=r"set_epoch\(0\): a state of epoch 2, step 0 was loaded"):
        next(iter(dataset))
    dataset.sampler.set_epoch(2)
    # Only what was loaded and not iterated yet.
    next(iter(dataset))
    dataset.set_epoch(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_dataloader_are_refused(make):
    workers = DataLoader(IterableDataset(make()), batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(headwater.ForkError, match="cannot be used in the workers .* set num_workers=0"):
        next(iter(workers))
    # Workers that are not forked are sent the dataset.
    with pytest.raises(headwater.ForkError, match="set num_workers=0"):
        pickle.dumps(workers.dataset)


def test_a_dataloader_that_makes_batches_of_batches_is_refused(make):
    with pytest.raises(headwater.ConfigError, match="whole already: give the DataLoader batch_size=None"):
        next(iter(DataLoader(IterableDataset(make()))))


def test_only_a_loader_makes_a_dataset(make):
    with pytest.raises(TypeError, match="give a headwater.Loader, not list"):
        IterableDataset([1])


@pytest.fixture
def accelerator():
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    made = []

    def accelerator(**options):
        configuration = accelerate.DataLoaderConfiguration(**options)
        made.append(accelerate.Accelerator(cpu=True, dataloader_config=configuration))
        return made[-1]

    yield accelerator
    for one in made:
        one.free_memory()


def test_accelerate_prepares_it_in_a_single_process(make, accelerator):
    prepared = accelerator(dispatch_batches=False).prepare(batches(make))
    assert [keys(batch) for _ in range(2) for batch in prepared] == expected(make)


def test_accelerate_skips_the_first_batches_of_an_epoch(make, accelerator):
    single = accelerator(dispatch_batches=False)
    prepared = single.prepare(batches(make))
    prepared.set_epoch(1)
    rest = [keys(batch) for batch in single.skip_first_batches(prepared, 5)]
    prepared.set_epoch(2)
    rest += [keys(batch) for batch in prepared]
    assert rest == expected(make, epochs=3)[STEPS + 5 :]
    # A loader that is not prepared has its own epoch.
    assert [keys(batch) for batch in single.skip_first_batches(batches(make), 5)] == expected(make, epochs=1)[5:]


@pytest.mark.filterwarnings("ignore")
def test_accelerate_goes_on_in_mid_epoch_with_the_next_batch(make, accelerator, tmp_path):
    pytest.importorskip("torchdata", reason="torchdata is not installed")
    options = {"use_stateful_dataloader": True, "dispatch_batches": False}
    lost, taken = accelerator(**options), []
    prepared = lost.prepare(batches(make))
    for epoch in range(2):
        prepared.set_epoch(epoch)
        for batch in prepared:
            taken.append(keys(batch))
            if len(taken) == STEPS + 5:
                lost.save_state(str(tmp_path))
                break
    resuming = accelerator(**options)
    prepared = resuming.prepare(batches(make))
    resuming.load_state(str(tmp_path))
    for epoch in range(1, 3):
        prepared.set_epoch(epoch)
        taken += [keys(batch) for batch in prepared]
    assert taken == expected(make, epochs=3)


# By itself Accelerate has one process read for all; told not to, it has each read a share of its own batches.
@pytest.mark.parametrize("dispatch, processes, batch_size", [(None, 1, None), (None, 2, None), (False, 2, 1)])
def test_accelerate_may_not_divide_a_ranks_batches(make, accelerator, dispatch, processes, batch_size):
    accelerator()
    from accelerate.data_loader import prepare_data_loader

    options = {"num_processes": processes, "process_index": 0, "put_on_device": True, "dispatch_batches": dispatch}
    given = DataLoader(IterableDataset(make()), batch_size=batch_size)
    prepared = prepare_data_loader(given, torch.device("cpu"), **options)
    with pytest.raises(headwater.ConfigError, match=r"leave the DataLoader out of accelerator.prepare\(\)"):
        next(iter(prepared))
