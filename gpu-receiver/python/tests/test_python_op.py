"""A function of one's own as an operation of a recipe."""

import hashlib
import os
import sys

import headwater
import numpy as np
import pytest
from conftest import PHOTOS
from local_services import remove, short_folder

SHARD = str(PHOTOS / "photos-000001.tar")
FUNCTIONS = """
import os
import signal

import numpy as np

def edges(array, rng):
    shift = rng.integers(0, 8, 2)
    made = np.roll(array, shift, (0, 1)) // 2 + rng.integers(0, 100, array.shape, np.uint8)
    made[0, :16, 0] = np.frombuffer(np.array(rng.bit_generator.seed_seq.entropy, np.uint64).tobytes(), np.uint8)
    return made

def same(array, rng):
    return array

def picky(array, rng):
    if array[0, 0, 0] % 2:
        raise ValueError("an odd corner")
    return array

def dark(array, rng):
    import headwater

    if array[0, 0, 0] % 2:
        raise headwater.BadSample("dark")
    return array

def confused(array, rng):
    raise KeyError("not the sample's fault")

def dies_once(array, rng):
    try:
        os.close(os.open(os.environ["HEADWATER_TEST_DIED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return array
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """`own_ops`, beside a script as it were, and the user's runtime folder."""
    runtime = short_folder("hw-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("HEADWATER_TEST_DIED", str(tmp_path / "died"))
    (tmp_path / "own_ops.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("own_ops", None)
    yield tmp_path / "own_ops.py"
    remove(runtime)


def source_of(module):
    return hashlib.sha256(module.read_bytes()).hexdigest()


def recipe(*functions, p=1.0, sha256=None):
    given = {} if sha256 is None else {"sha256": sha256}
    ops = [{"op": "python", "p": p, "function": function, **given} for function in functions]
    crop = {"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [0.75, 1.3]}
    views = [{"crop": crop, "ops": ops}, {"crop": crop, "ops": []}]
    return {"tensors": [{"name": "images", "dtype": "u8", "height": 40, "width": 48, "views": views}]}


def load(given, **options):
    return headwater.Loader(SHARD, recipe=given, batch_size=4, seed=5, embedded="threads", **options)


def views(batch):
    """Images `[batch, height, width, 3]` of the first view, which the function had."""
    return batch.images.numpy()[: len(batch)].transpose(0, 2, 3, 1)


def seeds_in(image):
    """Seeds that `edges` has written into its first row."""
    return np.frombuffer(image[0, :16, 0].tobytes(), np.uint64).tolist()


def test_it_is_called_with_the_view_and_a_generator_of_its_own(module):
    import own_ops

    seen, samples = set(), 0
    with load(recipe("own_ops:edges")) as loader, load(recipe()) as plain:
        assert loader.recipe["tensors"][0]["views"][0]["ops"][0]["sha256"] == source_of(module)
        for batch, before in zip(loader, plain, strict=True):
            for made, image in zip(views(batch), views(before), strict=True):
                seeds = seeds_in(made)
                expected = own_ops.edges(image, np.random.default_rng(seeds))
                np.testing.assert_array_equal(made, expected)
                seen.add(tuple(seeds))
            samples += len(batch)
            np.testing.assert_array_equal(batch.images.numpy()[4:], before.images.numpy()[4:])
    assert len(seen) == samples > 0


def test_a_batch_is_the_same_whoever_makes_it_and_resumes(module):
    given = recipe("own_ops:edges", p=0.5)
    with load(given) as loader:
        whole = [batch.digest for batch in loader]
    with load(given, augment_threads=1, part_samples=1) as loader:
        assert [batch.digest for batch in loader] == whole
    with load(given) as loader:
        batches = iter(loader)
        first, state = next(batches).digest, loader.state_dict()
    with load(given) as loader:
        loader.load_state_dict(state)
        assert [first, *(batch.digest for batch in loader)] == whole


def test_other_source_is_another_recipe(module):
    given = recipe("own_ops:same")
    with load(given) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    module.write_text(FUNCTIONS + "# changed\n")
    with load(given) as loader, pytest.raises(headwater.StateError, match="recipe"):
        loader.load_state_dict(state)


def test_a_worker_with_other_source_is_refused_by_name(module):
    given = recipe("own_ops:same", sha256="0" * 64)
    with load(given, worker_wait_ms=8000) as loader, pytest.raises(headwater.WorkerError, match="own_ops.*another one"):
        next(iter(loader))


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(headwater.ConfigError, match="own_absent.*cannot be loaded"):
        load(recipe("own_absent:f"))


def test_a_sample_that_the_function_raises_on_is_a_bad_one(module):
    with load(recipe()) as plain:
        odd = {key: view[0, 0, 0] % 2 for batch in plain for key, view in zip(batch.keys, views(batch), strict=True)}
    assert 0 < sum(odd.values()) < len(odd)
    with load(recipe("own_ops:picky")) as loader:
        substituted = 0
        for batch in loader:
            assert (views(batch)[:, 0, 0, 0] % 2 == 0).all()
            for reason in batch.substituted.values():
                assert "`own_ops:picky` raised ValueError: an odd corner" in reason
            substituted += len(batch.substituted)
    assert substituted > 0
    with load(recipe("own_ops:picky"), on_bad_sample="fail") as loader, pytest.raises(headwater.WorkerError, match="odd corner"):
        for _ in loader:
            pass


def test_only_an_error_that_says_so_makes_a_bad_sample(module):
    with load(recipe("own_ops:dark")) as loader:
        reasons = [reason for batch in loader for reason in batch.substituted.values()]
    assert reasons and all("`own_ops:dark` raised BadSample: dark" in reason for reason in reasons)
    told = r"`own_ops:confused` raised KeyError.*raise headwater\.BadSample.*augment\.python_bad_sample_errors"
    with load(recipe("own_ops:confused")) as loader, pytest.raises(headwater.WorkerError, match=told):
        for batch in loader:
            assert not batch.substituted


def test_a_process_that_dies_is_replaced(module):
    with load(recipe()) as plain, load(recipe("own_ops:dies_once")) as loader:
        for batch, before in zip(loader, plain, strict=True):
            np.testing.assert_array_equal(batch.images.numpy(), before.images.numpy())
            assert not batch.substituted
    assert os.path.exists(os.environ["HEADWATER_TEST_DIED"])


def test_a_misspelt_function_is_named_before_the_first_batch(module):
    with pytest.raises(headwater.ConfigError, match=r"module `own_ops` \(.*\) has no `edgs`: did you mean `edges`\?"):
        load(recipe("own_ops:same", "own_ops:edgs"))
    module.write_text(FUNCTIONS + "\n\nfor name in ('a', 'b'):\n    globals()[name] = same\n")
    with load(recipe("own_ops:b")) as loader:
        assert next(iter(loader)).images.shape == (8, 3, 40, 48)
    module.write_text(FUNCTIONS + "\ndef broken(:\n")
    with pytest.raises(headwater.ConfigError, match="own_ops.*SyntaxError"):
        load(recipe("own_ops:same"))
