"""States: taken anywhere, gone on from anywhere."""

import json
import pickle

import headwater
import pytest
from conftest import patiently


def take(loader, count):
    """The digests of `count` batches, and the state after them."""
    seen = []
    for batch in loader:
        seen.append(batch.digest)
        if len(seen) == count:
            break
    return seen, loader.state_dict()


def test_a_new_loader_goes_on_with_exactly_the_next_batch(make):
    whole = [batch.digest for batch in make()]
    seen, state = take(make(), 6)
    assert (state["epoch"], state["step"]) == (0, 6)
    loader = make()
    loader.load_state_dict(pickle.loads(pickle.dumps(json.loads(json.dumps(state)))))
    assert (loader.epoch, loader.step) == (0, 6)
    assert seen + [batch.digest for batch in loader] == whole
    # Once: the next iteration is a whole epoch again.
    assert len([batch.step for batch in loader]) == 16


def test_the_usual_training_loop_resumes_although_it_sets_the_epoch(make):
    def train(loader, first_epoch, stop_after=None):
        steps = []
        for epoch in range(first_epoch, 2):
            loader.set_epoch(epoch)
            for batch in loader:
                steps.append((batch.epoch, batch.step, batch.digest))
                if len(steps) == stop_after:
                    return steps, loader.state_dict()
        return steps, None

    whole, _ = train(make(), 0)
    before, state = train(make(), 0, stop_after=21)
    loader = make()
    loader.load_state_dict(state)
    after, _ = train(loader, state["epoch"])
    assert before + after == whole


def test_set_epoch_to_another_epoch_forgets_the_loaded_place(make):
    _, state = take(make(), 6)
    loader = make()
    loader.load_state_dict(state)
    loader.set_epoch(3)
    assert [(b.epoch, b.step) for b in loader][0] == (3, 0)


def test_a_state_holds_on_another_number_of_ranks(make):
    whole = [batch.keys for batch in make()]
    _, state = take(make(), 6)
    ranks = [make(rank=rank, world_size=2, batch_size=2) for rank in range(2)]
    for loader in ranks:
        loader.load_state_dict(state)
    halves = [[batch.keys for batch in loader] for loader in ranks]
    assert [left + right for left, right in zip(*halves)] == whole[6:]


def test_the_state_after_the_last_batch_is_the_next_epochs_start(make):
    _, state = take(make(), 16)
    assert (state["epoch"], state["step"]) == (1, 0)


def test_what_differs_is_named_unless_allowed(make):
    _, state = take(make(seed=1), 2)
    loader = make(seed=2)
    with pytest.raises(headwater.StateError, match="seed is 1 in the state and 2"):
        loader.load_state_dict(state)
    assert next(iter(loader)).step == 0
    with pytest.raises(headwater.ConfigError, match="allow"):
        loader.load_state_dict(state, allow=["sead"])
    loader.load_state_dict(state, allow=["seed"])
    assert next(iter(loader)).step == 2


def test_a_state_that_is_none_is_refused(make):
    loader = make()
    for state in [{}, {"version": 1}, {**loader.state_dict(), "extra": 1}]:
        with pytest.raises(headwater.StateError, match="not usable"):
            loader.load_state_dict(state)
    with pytest.raises(TypeError, match="cannot be part of"):
        loader.load_state_dict({"epoch": object()})


def test_a_state_loaded_during_an_iteration_ends_it(make):
    loader = make()
    iteration = iter(loader)
    next(iteration)
    state = loader.state_dict()
    next(iteration)
    loader.load_state_dict(state)
    with pytest.raises(headwater.BusyError, match="moved"):
        next(iteration)
    assert next(iter(loader)).step == 1


def test_checkpoint_files_are_resumed_from(make, tmp_path):
    whole = [batch.digest for batch in make()]
    options = {"checkpoint_dir": tmp_path, "checkpoint_every_steps": 5}
    loader = make(**options)
    for batch in loader:
        if batch.step == 8:
            break
    loader.close()
    assert [path.name for path in tmp_path.iterdir()] == ["dl_state_000000005.json"]
    resumed = make(resume=True, **options)
    resumed.set_epoch(0)
    assert [batch.digest for batch in resumed] == whole[5:]
    resumed.checkpoint(77)
    assert (tmp_path / "dl_state_000000077.json").exists()


def test_a_resume_from_broken_checkpoints_only_is_refused(make, tmp_path):
    options = {"checkpoint_dir": tmp_path, "resume": True}
    # None at all: the first run of a job that always resumes.
    assert next(iter(make(**options))).step == 0
    for step in (5, 10):
        (tmp_path / f"dl_state_{step:09}.json").write_text('{"torn"')
    with pytest.raises(headwater.StateError) as refused:
        make(**options)
    text = str(refused.value)
    assert text.startswith(f"none of the 2 checkpoints in {tmp_path} can be read, the newest because")
    assert "dl_state_000000010.json" in text and 'set receiver.resume to "fresh"' in text
    assert next(iter(make(checkpoint_dir=tmp_path, resume="fresh"))).step == 0
    # They are out of the way of checkpoints that are written from now on.
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"dl_state_{step:09}.json.broken" for step in (5, 10)]
    with pytest.raises(headwater.ConfigError, match="`newest` is not true, false or \"fresh\""):
        make(checkpoint_dir=tmp_path, resume="newest")


def test_a_resume_after_a_return_continues_the_new_run_and_not_the_abandoned_one(make, tmp_path):
    options = {"checkpoint_dir": tmp_path, "checkpoint_every_steps": 2}
    digests, states = [], []
    loader = make(**options)
    for _, batch in zip(range(12), loader):
        digests.append(batch.digest)
        states.append(loader.state_dict())
    loader.checkpoint(12)
    loader.close()
    loader = make(**options)
    loader.load_state_dict(states[3])
    loader.close()
    # Also before the new run has come to a checkpoint of its own.
    resumed = make(resume=True, **options)
    assert [batch.digest for _, batch in zip(range(4), resumed)] == digests[4:8]
    resumed.checkpoint(8)
    resumed.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name for name in names if "abandoned" in name] == [
        f"dl_state_{step:09}.json.abandoned-{sequence}" for step, sequence in [(8, 4), (10, 5), (12, 6)]
    ]
    again = make(resume=True, **options)
    assert (again.epoch, again.step) == (0, 8)
    assert next(iter(again)).digest == digests[8]
    # A file is a state; the abandoned ones may be loaded, too.
    again.load_state_dict(json.loads((tmp_path / names[-1]).read_text()))
    assert next(iter(again)).step == 12


def test_weights_set_on_the_way_are_in_the_state(make):
    options = {"datasets": ["photos", "others"], "seed": 3}
    loader = make(**options)
    seen = []
    for batch in loader:
        seen.append(batch.keys)
        if batch.step == 1:
            loader.set_weights([0, 1])
        if batch.step == 3:
            state = loader.state_dict()
    resumed = make(**options)
    resumed.load_state_dict(state)
    assert [batch.keys for batch in resumed] == seen[4:]


def test_a_resumed_run_may_not_train_on_epochs_that_are_done_by_mistake(make):
    loader = make()
    whole = [(batch.epoch, batch.step, batch.digest) for _ in range(3) for batch in loader]
    loader.seek(1, 9)
    state = loader.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    with pytest.raises(headwater.ConfigError, match=r"a state of epoch 1, step 9 was loaded.*in loader.epochs\(n\)`.*`seek\(0, 0\)`"):
        resumed.set_epoch(0)
    taken = [(batch.epoch, batch.step, batch.digest) for _ in resumed.epochs(3) for batch in resumed]
    assert taken == whole[16 + 9 :]
    # On purpose, and once something was taken, anywhere.
    resumed.set_epoch(0)
    resumed.load_state_dict(state)
    resumed.seek(0, 0)
    assert next(iter(resumed)).epoch == 0


def test_a_place_that_was_loaded_stays_until_a_batch_was_taken_there(make, tiers):
    state = {**make().state_dict(), "epoch": 1, "step": 9}
    # Nobody listens there.
    loader = make(workers=["127.0.0.1:1"], worker_wait_ms=200)
    loader.load_state_dict(state)
    with pytest.raises(headwater.WorkerError):
        next(iter(loader))
    with pytest.raises(headwater.ConfigError, match="a state of epoch 1, step 9 was loaded"):
        loader.set_epoch(0)
    loader.set_workers(tiers.workers)
    batch = next(patiently(iter(loader)))
    assert (batch.epoch, batch.step) == (1, 9)
