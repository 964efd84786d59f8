"""Epochs, and what a new iteration is."""

import json
import threading
import warnings

import headwater
import pytest

STEPS = 16  # 64 photographs in batches of 4


def digests(batches):
    return [batch.digest for batch in batches]


def test_an_epoch_holds_every_sample_once_with_its_label(make, labels):
    loader = make()
    assert len(loader) == STEPS
    keys, places = [], []
    for batch in loader:
        assert batch.labels.numpy().tolist() == [labels[key] for key in batch.keys]
        keys += batch.keys
        places.append((batch.epoch, batch.step))
    assert sorted(keys) == sorted(labels)
    assert places == [(0, step) for step in range(STEPS)]


def test_iterations_go_on_to_the_next_epoch_in_another_order(make):
    loader = make()
    first = [batch.keys for batch in loader]
    second = list(batch.keys for batch in loader)
    assert (loader.epoch, loader.step) == (2, 0)
    assert sorted(sum(first, [])) == sorted(sum(second, []))
    assert first != second


def test_set_epoch_goes_to_the_start_of_any_epoch(make):
    loader = make()
    first = digests(loader)
    loader.set_epoch(0)
    assert digests(loader) == first
    loader.set_epoch(7)
    assert {batch.epoch for batch in loader} == {7}


def test_a_new_iteration_after_a_break_is_over_the_next_epoch_as_pytorch_draws_anew(make):
    loader = make()
    seen = [next(iter(make())).digest]
    for batch in loader:
        if batch.step == 4:
            break
    assert loader.step == 5
    with pytest.warns(UserWarning, match=r"epoch 0 was left before step 5.*`set_epoch\(0\)`.*`seek\(0, 5\)`"):
        seen.append(next(iter(loader)).digest)
    # Once.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen += [next(iter(loader)).digest for _ in range(4)]
    assert seen == [next(iter(epoch_of(make(), epoch))).digest for epoch in range(6)]
    loader.set_epoch(0)
    assert digests(loader) == digests(make())


def epoch_of(loader, epoch):
    loader.set_epoch(epoch)
    return loader


def test_an_iteration_begins_with_its_first_batch(make):
    loader = make()
    running, later = iter(loader), iter(loader)
    assert [next(running).step for _ in range(3)] == [0, 1, 2]
    # What is set before holds for it, and a loaded state too.
    loader.set_epoch(3)
    assert (next(later).epoch, loader.step) == (3, 1)
    with pytest.raises(headwater.BusyError, match="this iteration is over"):
        next(running)
    later = iter(loader)
    loader.seek(2, 5)
    assert (next(later).epoch, loader.step) == (2, 6)
    # One that never began ends nothing.
    del running
    never = iter(loader)
    never.close()
    assert list(never) == [] and next(later).step == 6


def test_frameworks_find_pytorchs_names(make):
    loader = make()
    later = iter(loader)
    loader.sampler.set_epoch(2)
    assert next(later).epoch == 2
    assert (len(loader.sampler), len(loader.dataset), loader.batch_size) == (64, 64, 4)
    assert (loader.num_workers, loader.drop_last) == (0, True)
    assert not make(epoch_end="short_last").drop_last
    batches = loader.batch_sampler
    assert (len(batches), batches.batch_size, batches.drop_last, len(batches.sampler)) == (STEPS, 4, True, 64)
    with pytest.raises(TypeError, match="iterate over the headwater.Loader"):
        iter(batches)
    # Of a loader with one epoch, frameworks set that of training.
    validation = make(epochs=1)
    for epoch in (0, 4):
        validation.sampler.set_epoch(epoch)
        assert [batch.epoch for batch in validation] == [0] * STEPS
    loader.batch_sampler.set_epoch(3)
    assert next(iter(loader)).epoch == 3
    with pytest.raises(TypeError, match="iterate over the headwater.Loader"):
        iter(loader.sampler)
    with pytest.raises(TypeError, match="samples come in batches"):
        loader.dataset[0]


def test_epochs_are_set_one_after_another(make):
    loader = make()
    seen = []
    for epoch in loader.epochs(3):
        for batch in loader:
            seen.append((epoch, batch.epoch, batch.step))
            if epoch == 1:
                break
    assert seen == [(0, 0, step) for step in range(STEPS)] + [(1, 1, 0)] + [(2, 2, step) for step in range(STEPS)]
    assert list(loader.epochs(3)) == []


def test_after_a_break_a_seek_to_its_own_place_goes_on(make):
    loader = make()
    whole = digests(loader)
    loader.set_epoch(0)
    seen = []
    for batch in loader:
        seen.append(batch.digest)
        if batch.step == 4:
            break
    loader.seek(loader.epoch, loader.step)
    assert seen + digests(loader) == whole


def test_an_epoch_whose_last_batch_was_taken_is_over(make):
    loader = make()
    for _, batch in zip(range(STEPS), loader):
        pass
    assert (batch.epoch, batch.step) == (0, STEPS - 1)
    assert next(iter(loader)).epoch == 1


def test_a_new_iteration_ends_the_one_before(make):
    loader = make()
    older = iter(loader)
    assert next(older).step == 0
    newer = iter(loader)
    batch = next(newer)
    assert (batch.epoch, batch.step) == (1, 0)
    with pytest.raises(headwater.BusyError, match="this iteration is over"):
        next(older)
    del older
    assert [batch.step for batch in newer] == list(range(1, STEPS))


def test_two_iterations_never_share_batches(make):
    loader = make()
    with pytest.raises(headwater.BusyError):
        for left, right in zip(loader, loader):
            pass
    with pytest.raises(headwater.BusyError):
        for outer in loader:
            inner = [batch.step for batch in loader]
    assert (outer.step, inner) == (0, list(range(STEPS)))


def test_a_closed_iteration_has_no_more_batches(make):
    loader = make()
    iteration = iter(loader)
    next(iteration)
    iteration.close()
    assert list(iteration) == []
    assert next(iter(loader)).step == 0


def test_set_epoch_during_an_iteration_holds_for_the_next(make):
    loader = make()
    steps = []
    for batch in loader:
        loader.set_epoch(5)
        steps.append(batch.epoch)
    assert steps == [0] * STEPS
    assert next(iter(loader)).epoch == 5


def test_two_threads_cannot_wait_for_one_batch(make):
    # Nobody listens there, so both wait.
    loader = make(workers=["127.0.0.1:1"], worker_wait_ms=1000)
    iteration = iter(loader)
    errors = []

    def take():
        try:
            next(iteration)
        except headwater.HeadwaterError as error:
            errors.append(type(error))

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(error.__name__ for error in errors) == ["BusyError", "WorkerError"]


def test_an_iteration_outlives_the_name_of_its_loader(tiers):
    count = 0
    for batch in headwater.Loader(**tiers.keywords()):
        count += len(batch)
    assert count == 64


def test_a_closed_loader_says_so_and_its_batches_stay(make):
    with make() as loader:
        batch = next(iter(loader))
        before = batch.digest
    with pytest.raises(headwater.ClosedError, match="closed"):
        iter(loader)
    assert batch.digest == before
    loader.close()


def test_after_the_last_epoch_an_iteration_is_refused_and_not_silently_empty(make):
    loader = make(epochs=2)
    whole = [digests(loader), digests(loader)]
    assert [len(epoch) for epoch in whole] == [STEPS, STEPS]
    with pytest.raises(headwater.ConfigError) as refused:
        next(iter(loader))
    assert str(refused.value) == (
        "this loader has no epoch 2: `epochs` = 2 ends its stream after epoch 1; `set_epoch(0)` begins "
        "again, and without `epochs` the stream has no end"
    )
    for beyond in (lambda: loader.set_epoch(2), lambda: loader.seek(7, 0)):
        with pytest.raises(headwater.ConfigError, match="`epochs` = 2"):
            beyond()
    loader.set_epoch(0)
    assert [digests(loader), digests(loader)] == whole


def test_a_validation_loader_gives_the_same_batches_each_time(make):
    loader = make(epochs=1)
    passes = []
    for _ in range(3):
        loader.set_epoch(0)
        passes.append(digests(loader))
    assert len(passes[0]) == STEPS
    assert passes[0] == passes[1] == passes[2]


def test_a_state_of_the_end_leaves_nothing(make):
    loader = make(epochs=1)
    for _ in loader:
        pass
    resumed = make(epochs=1)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == []
    with pytest.raises(headwater.ConfigError, match="`epochs` = 1"):
        next(iter(resumed))


def test_seek_begins_the_next_iteration_anywhere(make):
    loader = make()
    whole = digests(loader)
    loader.seek(0, 12)
    assert (loader.epoch, loader.step) == (0, 12)
    assert digests(loader) == whole[12:]
    with pytest.raises(headwater.ConfigError, match="16"):
        loader.seek(0, 99)
    # The stream goes on.
    assert next(iter(loader)).step == 0


def test_ranks_share_the_global_batch(make):
    whole = [batch.keys for batch in make()]
    ranks = [make(rank=rank, world_size=2, batch_size=2) for rank in range(2)]
    halves = [[batch.keys for batch in loader] for loader in ranks]
    assert [left + right for left, right in zip(*halves)] == whole


def test_broken_samples_are_replaced_and_named(make):
    substituted = {}
    for batch in make(datasets=["broken"], batch_size=8):
        assert len(batch.keys) == 8
        substituted.update(batch.substituted)
    assert len(substituted) == 3
    assert all("broken-jpeg" in reason or "0000" in reason for reason in substituted.values())


def test_stats_count_what_came(make):
    loader = make()
    for batch in loader:
        pass
    stats = loader.stats()
    assert json.dumps(stats)
    assert stats["batches"] >= STEPS and stats["samples"] >= 64
    assert sum(stats["link_bytes"].values()) > 0
    assert set(stats["workers"].values()) <= {"shm", "tcp"}
