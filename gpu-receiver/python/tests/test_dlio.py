"""DLIO's data loader class over files as DLIO writes them. DLIO's base class and arguments are stand-ins: benches/dlio.sh runs DLIO itself."""

import enum
import importlib
import sys
import types

import headwater
import pytest
from conftest import patiently

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

FILES = 6
BATCH = 2
SIDE = 24


class Words(enum.Enum):
    """Stands for DLIO's enumerations, whose texts are their values."""

    train, valid, off, seed, none, local_fs, s3, jpeg, png, npz, tfrecord, csv, tensorflow = (
        "train valid off seed none local_fs s3 jpeg png npz tfrecord csv tensorflow".split()
    )

    def __str__(self):
        return self.value


class BaseDataLoader:
    """`dlio_benchmark.data_loader.base_data_loader.BaseDataLoader` of release 2.0.0, without its singletons."""

    arguments = None

    def __init__(self, format_type, dataset_type, epoch_number, data_loader_type):
        self._args = self.arguments
        self.dataset_type, self.format_type = dataset_type, format_type
        self.epoch_number, self.data_loader_type = epoch_number, data_loader_type
        self.batch_size = self._args.batch_size


@pytest.fixture
def dlio(monkeypatch):
    """The module, imported beside stand-ins for those of DLIO."""
    for name in ("dlio_benchmark", "dlio_benchmark.data_loader", "dlio_benchmark.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    base = types.ModuleType("dlio_benchmark.data_loader.base_data_loader")
    base.BaseDataLoader = BaseDataLoader
    utility = types.ModuleType("dlio_benchmark.utils.utility")
    utility.DLIOMPI = types.SimpleNamespace(get_instance=lambda: types.SimpleNamespace(npernode=lambda: 1))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    monkeypatch.setitem(sys.modules, utility.__name__, utility)
    monkeypatch.delitem(sys.modules, "headwater.integrations.dlio", raising=False)
    yield importlib.import_module("headwater.integrations.dlio")
    sys.modules.pop("headwater.integrations.dlio")


def arguments(files, **changes):
    """DLIO's arguments, as far as the class reads them."""
    return types.SimpleNamespace(
        **{
            "file_list_train": [str(path) for path in files], "file_list_eval": [], "storage_type": Words.local_fs,
            "num_samples_per_file": 1, "read_threads": 1, "prefetch_size": 2, "batch_size": BATCH, "epochs": 2, "seed": 7, "my_rank": 0,
            "comm_size": 1, "file_shuffle": Words.seed, "sample_shuffle": Words.off, "record_length_resize": 0, "record_length_stdev": 0,
            "dimension": SIDE, "compression": Words.none, "framework": Words.tensorflow, **changes,
        }
    )


def trained(dlio, format_type, given):
    """The batches of all epochs, as `DLIOBenchmark.run` takes them: one `read`, then a `next` and a `finalize` for each epoch."""
    BaseDataLoader.arguments = given
    loader = dlio.HeadwaterLoader(format_type, Words.train, 1)
    loader.read()
    epochs = []
    for _ in range(given.epochs):
        steps = len(given.file_list_train) * given.num_samples_per_file // given.batch_size
        batches = []
        for batch in loader.next():
            batches.append(numpy.array(batch[0] if isinstance(batch, tuple) else batch))
            if len(batches) == steps:
                break
        epochs.append(batches)
        loader.finalize()
    return epochs


def named(folder, kind):
    """The paths that DLIO's generator gives files."""
    (folder / "train").mkdir()
    return [folder / "train" / f"img_{number}_of_{FILES}.{kind}" for number in range(FILES)]


def once_each_epoch(epochs, expected):
    """Every epoch has every sample once, byte for byte, and two epochs have different orders."""
    orders = []
    for batches in epochs:
        assert [len(batch) for batch in batches] == [BATCH] * (len(expected) // BATCH)
        got = [sample.tobytes() for batch in batches for sample in batch]
        assert sorted(got) == sorted(sample.tobytes() for sample in expected)
        orders.append(got)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_images_are_those_of_pillow_resized_to_the_square_of_record_length_resize(dlio, tmp_path, kind):
    draw = numpy.random.default_rng(1)
    expected = []
    for number, path in enumerate(named(tmp_path, kind)):
        # Gray, as DLIO makes them, and in colour, as photographs are.
        shape = (40 + number, 33, 3) if number % 2 else (40 + number, 33)
        Image.fromarray(draw.integers(255, size=shape, dtype=numpy.uint8)).save(path)
        resized = Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        expected.append(numpy.asarray(resized).transpose(2, 0, 1))
    files = sorted((tmp_path / "train").iterdir(), reverse=True)
    once_each_epoch(trained(dlio, Words[kind], arguments(files, record_length_resize=SIDE * SIDE * 3)), expected)


@pytest.mark.parametrize("samples", [1, 4])
def test_npz_records_are_taken_along_the_last_axis(dlio, tmp_path, samples):
    draw = numpy.random.default_rng(2)
    expected = []
    for path in named(tmp_path, "npz"):
        records = draw.integers(255, size=(SIDE, SIDE, samples), dtype=numpy.uint8)
        numpy.savez(path, x=records, y=[0] * samples)
        expected += [records[..., sample] for sample in range(samples)]
    given = arguments(sorted((tmp_path / "train").iterdir()), num_samples_per_file=samples)
    once_each_epoch(trained(dlio, Words.npz, given), expected)


def test_npz_files_that_are_written_again_are_read_again(dlio, tmp_path):
    files = named(tmp_path, "npz")
    for level in (1, 2):
        for path in files:
            numpy.savez(path, x=numpy.full((SIDE, SIDE, 2), level, numpy.uint8), y=[0] * 2)
        (batches,) = trained(dlio, Words.npz, arguments(files, num_samples_per_file=2, epochs=1))
        assert {int(value) for batch in batches for value in numpy.unique(batch)} == {level}


@pytest.mark.parametrize("after, between, evaluations", [(1, 1, 3), (2, 1, 2), (1, 2, 2), (9, 1, 0)])
def test_the_loader_of_the_validation_is_closed_after_the_last_evaluation(dlio, tmp_path, after, between, evaluations):
    files = named(tmp_path, "png")
    for path in files:
        Image.new("L", (SIDE, SIDE)).save(path)
    given = {"file_list_eval": [str(path) for path in files], "eval_after_epoch": after, "epochs_between_evals": between, "epochs": 3}
    BaseDataLoader.arguments = arguments([], record_length_resize=SIDE * SIDE * 3, **given)
    loader = dlio.HeadwaterLoader(Words.png, Words.valid, 1)
    loader.read()
    for number in range(evaluations):
        assert len(list(loader.next())) == FILES // BATCH
        loader.finalize()
        if number + 1 < evaluations:
            assert len(loader._loader) == FILES // BATCH
    if evaluations == 0:
        loader._loader.close()
        return
    with pytest.raises(headwater.errors.HeadwaterError, match="closed"):
        next(iter(loader._loader))


def test_hdf5_records_come_from_the_dataset_records(dlio, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    draw = numpy.random.default_rng(3)
    expected = []
    for path in named(tmp_path, "hdf5"):
        records = draw.integers(255, size=(2, SIDE, SIDE), dtype=numpy.uint8)
        with h5py.File(path, "w") as file:
            file.create_dataset("records", data=records)
            file.create_dataset("labels", data=[0] * 2)
        expected += list(records)
    given = arguments(sorted((tmp_path / "train").iterdir()), num_samples_per_file=2)
    once_each_epoch(trained(dlio, "hdf5", given), expected)


def test_other_formats_and_object_stores_are_refused_by_name(dlio, tmp_path):
    files = [tmp_path / "img_0_of_1.csv"]
    with pytest.raises(headwater.ConfigError, match="csv"):
        trained(dlio, Words.csv, arguments(files))
    with pytest.raises(headwater.ConfigError, match="storage_type.*s3"):
        trained(dlio, Words.png, arguments(files, storage_type=Words.s3))


def test_a_subclass_names_the_services_of_a_cluster(dlio, tiers):
    class OnCluster(dlio.HeadwaterLoader):
        keywords = {"storage": [tiers.storage], "workers": tiers.workers, "datasets": "photos"}

    BaseDataLoader.arguments = arguments([], record_length_resize=SIDE * SIDE * 3)
    loader = OnCluster(Words.jpeg, Words.train, 1)
    loader.read()
    batch = next(loader.next())
    assert batch.shape == (BATCH, 3, SIDE, SIDE) and batch.std() > 0
    loader._loader.close()


def test_an_epoch_goes_on_after_an_error_that_passed_and_is_counted_once(dlio, tiers):
    class OnCluster(dlio.HeadwaterLoader):
        # Nobody listens there.
        keywords = {"storage": [tiers.storage], "workers": ["127.0.0.1:1"], "datasets": "photos", "worker_wait_ms": 300}

    BaseDataLoader.arguments = arguments([], record_length_resize=SIDE * SIDE * 3)
    loader = OnCluster(Words.jpeg, Words.train, 1)
    loader.read()
    batches = loader.next()
    with pytest.raises(headwater.WorkerError):
        next(batches)
    loader._loader.set_workers(tiers.workers)
    assert len(list(patiently(batches))) == 64 // BATCH
    assert list(batches) == [] and loader.epoch_number == 2
    # An epoch that is left before its end is not counted.
    batches = loader.next()
    next(batches)
    batches.close()
    assert list(batches) == [] and loader.epoch_number == 2
    loader._loader.close()
