"""Loaders that start their services themselves: what they deliver, who shares them, how they end."""

import contextlib
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading

import headwater
import pytest
from conftest import PHOTOS, SMALL, Node, program
from local_services import Rank, Watched, only, photos, remove, running, short_folder

SHARD = PHOTOS / "photos-000001.tar"
PLACES = [{}, {"embedded": "threads"}]
BOTH = pytest.mark.parametrize("place", PLACES, ids=["process", "threads"])
# Ranks of one job, as torchrun has them.
JOB = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "4"}


@pytest.fixture(autouse=True)
def runtime(monkeypatch):
    """The user's runtime folder, in which nothing may be left."""
    folder = short_folder("hw-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("HEADWATER_PROGRAM", program())
    for name in JOB:
        monkeypatch.delenv(name, raising=False)
    yield folder
    for pid in running(folder):
        # One that was told to end may have done so.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    remove(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("photos"))


def load(data, **options):
    return headwater.Loader(data, **{"recipe": SMALL, "batch_size": 4, "seed": 3, **options})


def epoch(loader) -> list[str]:
    return [batch.digest for batch in loader]


def left_in(runtime) -> list[str]:
    """What services have left in the runtime folder, beside the lock."""
    return sorted(path.name for path in (runtime / "headwater").iterdir() if path.name != "lock")


def test_services_of_the_loader_deliver_the_bytes_of_separate_ones(tmp_path):
    listens = ["--listen", "127.0.0.1:0"]
    dataset = ["--dataset", f"data={SHARD}", "--index-dir", str(tmp_path / "index")]
    nodes = [Node(tmp_path / "storage.log", "storage", *listens, *dataset)]
    try:
        named = ["--threads", "1", "--storage", nodes[0].address]
        nodes.append(Node(tmp_path / "augment.log", "augment", *listens, *named))
        addresses = {"storage": nodes[0].address, "workers": nodes[1].address}
        given = {"datasets": "data", "recipe": SMALL, "batch_size": 4, "seed": 3}
        with headwater.Loader(**addresses, **given) as loader:
            separate, state = epoch(loader), loader.state_dict()
    finally:
        for node in nodes:
            node.stop()
    assert len(set(separate)) == len(separate) == 16
    for place in PLACES:
        with load(SHARD, **place) as loader:
            assert epoch(loader) == separate, place
            assert loader.state_dict() == state, place


@BOTH
def test_a_folder_of_images_is_all_that_is_needed(folder, place, runtime):
    with load(folder, batch_size=8, **place) as loader:
        assert loader.datasets == {"data": 64}
        batch = next(iter(loader))
        assert batch.global_crops.shape == (16, 3, 32, 32)
        classes = sorted(path.name for path in folder.iterdir())
        for sample in batch.samples:
            assert classes[sample.label] == sample.key.split("/")[0]
        assert len(left_in(runtime)) == (1 if place else 2), "a token, and a socket"


@BOTH
def test_a_folder_that_has_grown_is_looked_at_anew(folder, place, tmp_path):
    grown = tmp_path / "photos"
    shutil.copytree(folder, grown)
    with load(grown, **place) as before, load(grown, **place) as same:
        shutil.copy(next(grown.rglob("*.jpg")), next(grown.iterdir()) / "new.jpg")
        with load(grown, **place) as after:
            found = [loader.datasets["data"] for loader in (before, same, after)]
    assert found == [64, 64, 65]


def test_a_token_that_a_cleaner_has_removed_is_put_back(folder, runtime):
    with load(folder) as first:
        next(iter(first))
        for token in (runtime / "headwater").glob("*.token"):
            token.unlink()
        first.set_epoch(0)
        with load(folder) as second:
            assert epoch(second) == epoch(first)


def test_a_missing_folder_for_temporary_files_is_no_obstacle(folder, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", "/nowhere/at/all")
    with load(folder, embedded="threads") as loader:
        assert next(iter(loader)).step == 0


def test_images_without_labels_need_no_word_on_labels(folder, tmp_path):
    for path in folder.rglob("*.jpg"):
        shutil.copy(path, tmp_path)
    with load(tmp_path, embedded="threads") as loader:
        assert next(iter(loader)).labels.numpy().tolist() == [-1] * 4
    with pytest.raises(headwater.ConfigError, match="no sample of dataset `data` has a label `cls`"):
        load(tmp_path, embedded="threads", label_field="cls")


def test_images_are_named_one_by_one_or_by_a_glob(folder):
    images = sorted(folder.rglob("*.jpg"))
    digests = []
    for data in (folder, images, str(folder / "*" / "*.jpg")):
        with load(data, embedded="threads") as loader:
            digests.append(epoch(loader))
    assert digests[1:] == [digests[0]] * 2
    with load(images[::-3], embedded="threads", shuffle=False, batch_size=1) as loader:
        assert [key for batch in loader for key in batch.keys] == [str(image.relative_to(folder)) for image in images[::-3]]
    with pytest.raises(headwater.HeadwaterError, match="is named twice: name it once"):
        load([images[0], images[1], images[0]], embedded="threads")


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        [str(SHARD), PHOTOS / "photos-000003.tar"],
        str(PHOTOS / "photos-00000{1,3}.tar"),
        str(PHOTOS / "photos-*[13].tar"),
        {"data": [SHARD, PHOTOS / "photos-000003.tar"]},
    ],
    ids=["list", "braces", "glob", "dict"],
)
def test_data_is_what_a_datasets_shards_may_be(data, place):
    with load(data, **place) as loader:
        assert loader.datasets == {"data": 64 + 41}


def test_datasets_name_and_weigh_what_data_has():
    data = {"a": SHARD, "b": PHOTOS / "photos-000003.tar"}
    with load(data, datasets=[("b", 1.0), ("a", 3.0)], embedded="threads") as loader:
        assert loader.datasets == {"b": 41, "a": 64}
        assert loader.weights == {"b": 0.25, "a": 0.75}


FAULTS = [
    ("/no/such/photos", {}, headwater.StorageError, r"/no/such/photos.*check that it exists"),
    ("/no/such/photos-*.tar", {}, headwater.StorageError, r"no file fits the shards `/no/such/photos-\*\.tar`"),
    (str(PHOTOS.parent / "bad" / "truncated.tar"), {}, headwater.StorageError, "truncated.tar.*fetch or write it again"),
    (str(SHARD), {"augment_threads": 5000}, headwater.ConfigError, "augment.threads is `5000`"),
    ([], {}, headwater.ConfigError, r"`data` = \[\]: give a path"),
    (7, {}, headwater.ConfigError, "`data` = 7: give a path"),
    (str(SHARD), {"datasets": ["a", "b"]}, headwater.ConfigError, "`datasets` names a, b: give `data` as a dict"),
    (str(SHARD), {"datasets": {"name": "a", "shards": "x"}}, headwater.ConfigError, "dataset `a` has `shards`"),
    (str(SHARD), {"storage": "a:1"}, headwater.ConfigError, "`data` and `storage` are both given"),
    (str(SHARD), {"workers": ["a:1"]}, headwater.ConfigError, "`data` and `workers` are both given"),
]


@BOTH
@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_what_is_wrong_is_raised_with_its_name_and_the_remedy(number, place, runtime):
    data, options, error, said = FAULTS[number]
    services = []
    with pytest.raises(error, match=said) as caught:
        load(data, **options, **place, progress=lambda *_: services.extend(running(runtime)))
    assert type(caught.value) is error
    for pid in running(runtime):
        assert Watched(pid).has_ended()


@BOTH
def test_a_worker_that_cannot_start_is_raised_too(place, runtime, monkeypatch):
    monkeypatch.setenv("HEADWATER_AUGMENT__BACKEND", "cuda")
    monkeypatch.setenv("HEADWATER_AUGMENT__CUDA_DEVICE", "1000")
    with pytest.raises(headwater.ConfigError, match="augment.backend is `cuda`, but"):
        load(SHARD, **place)
    for pid in running(runtime):
        assert Watched(pid).has_ended()


def test_keywords_of_local_services_need_data():
    with pytest.raises(headwater.ConfigError, match="`embedded` goes with `data`"):
        headwater.Loader(storage="a:1", workers="b:1", datasets="data", embedded="threads")
    with pytest.raises(headwater.ConfigError, match="`embedded` = \"process\": give \"threads\""):
        load(SHARD, embedded="process")
    with pytest.raises(headwater.ConfigError, match="configuration file `a.toml`, and `config` is `b.toml`"):
        headwater.Loader("a.toml", config="b.toml")


def test_a_program_that_is_not_there_or_is_another_one_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWATER_PROGRAM", "/no/such/headwater")
    with pytest.raises(headwater.WorkerError, match="`/no/such/headwater`: No such file"):
        load(SHARD)
    other = tmp_path / "headwater"
    other.write_text("#!/bin/sh\necho 'error: unrecognized subcommand' >&2\nexit 2\n")
    other.chmod(0o755)
    monkeypatch.setenv("HEADWATER_PROGRAM", str(other))
    with pytest.raises(headwater.WorkerError, match="unrecognized subcommand"):
        load(SHARD)
    monkeypatch.delenv("HEADWATER_PROGRAM")
    # Before PATH come the folders in which this very package may have put its program.
    monkeypatch.setattr("headwater._scripts.folders", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(headwater.WorkerError, match=f"`{other}`: error: unrecognized"):
        load(SHARD)
    other.unlink()
    with pytest.raises(headwater.ConfigError, match="no program `headwater` in .*PATH.*HEADWATER_PROGRAM"):
        load(SHARD)


def test_progress_is_told_shard_by_shard():
    told = []
    with load(str(PHOTOS / "photos-*.tar"), progress=lambda done, of: told.append((done, of))):
        assert told[-1] == (4, 4)
        assert told == sorted(told)


@BOTH
def test_what_the_function_for_progress_raises_ends_the_loader(place, runtime):
    def refuse(done, of):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        load(SHARD, progress=refuse, **place)
    for pid in running(runtime):
        assert Watched(pid).has_ended()


@BOTH
def test_loaders_of_a_process_share_their_services(place, runtime):
    with load(SHARD, **place) as first, load(SHARD, batch_size=8, recipe="imagenet-eval", **place) as second:
        assert first.config["workers"] == second.config["workers"]
        with load(PHOTOS / "photos-000003.tar", **place) as other:
            assert other.config["storage"] != first.config["storage"]
        first.close()
        assert len(epoch(second)) == 8
    for pid in running(runtime):
        assert Watched(pid).has_ended()
    assert left_in(runtime) == []


def test_ranks_that_start_at_once_share_one_set_that_outlives_whoever_started_it(folder, runtime):
    ranks = [Rank(folder, "while told(): say('batch', next(iteration).digest)\n", JOB) for _ in range(4)]
    try:
        assert len({rank.hear()[1] for rank in ranks}) == 1
        services = only(runtime)
        with open(f"/proc/{services.pid}/stat") as stat:
            parent = int(stat.read().rsplit(") ", 1)[1].split()[1])
        starter = next(rank for rank in ranks if rank.pid == parent)
        ranks.remove(starter)
        starter.kill()
        # Nobody else holds its standard error open.
        assert starter.end()[0] == -signal.SIGKILL
        for rank in ranks:
            rank.tell("go on")
            assert rank.hear()[0] == "batch"
        ranks.pop().kill()
        ranks[0].tell("go on")
        assert ranks[0].hear()[0] == "batch"
        assert only(runtime).pid == services.pid
        for rank in ranks:
            rank.kill()
        assert services.has_ended()
        assert left_in(runtime) == []
    finally:
        for rank in ranks:
            rank.kill()
            rank.end()


ENDS = {
    "close": ("loader.close()", 0),
    "with": ("with loader: pass", 0),
    "garbage": ("del iteration, loader", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("for batch in iteration: raise ValueError('of the loop')", 1),
    "interrupt": ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS)
def test_services_end_with_the_loader_however_it_ends(end, runtime):
    script, status = ENDS[end]
    # Where the process goes on, it waits until the services are gone.
    with Rank(SHARD, f"told()\n{script}\nsay('goes on')\ntold()\n") as rank:
        rank.hear()
        services = only(runtime)
        rank.tell("end")
        assert services.has_ended()
        assert left_in(runtime) == []
        rank.process.stdin.close()
        rank.process.stdin = None
        assert rank.end()[0] == status


@pytest.mark.parametrize("end", ENDS)
def test_threads_end_with_the_process_and_leave_nothing(end, runtime):
    script, status = ENDS[end]
    with Rank(SHARD, script + "\n", options={"embedded": "threads"}) as rank:
        rank.hear()
        assert rank.end()[0] == status
    if status < 0:
        # Its token is left; whoever comes next removes it.
        with load(PHOTOS / "photos-000003.tar", embedded="threads"):
            assert len(left_in(runtime)) == 1
    if end in ("close", "with", "garbage") or status < 0:
        assert left_in(runtime) == []


FORK = """
pid = os.fork()
if pid == 0:
    # As a DataLoader's worker that outlives its parent.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        signal.pause()
say(pid)
told()
"""


@pytest.mark.parametrize("end", ["close", "killed", "exit"])
def test_a_forked_process_does_not_keep_the_services(end, runtime):
    with Rank(SHARD, f"{FORK}{ENDS[end][0]}\ntold()\n") as rank:
        rank.hear()
        forked = Watched(int(rank.hear()[0]))
        services = only(runtime)
        try:
            rank.tell("end")
            assert services.has_ended()
            assert not forked.has_ended(0)
        finally:
            os.kill(forked.pid, signal.SIGKILL)


GOES_ON = """
pid = os.fork()
if pid == 0:
    # Ends as a script does: everything is dropped here, too.
    loader.close()
    del iteration, loader
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
say("batch", next(iteration).digest)
"""


@BOTH
def test_a_forked_process_that_ends_takes_nothing_along(place):
    with Rank(SHARD, GOES_ON, options=place) as rank:
        assert rank.hear()[0] == "batch"
        assert rank.hear()[0] == "batch"
        assert rank.end() == (0, "")


def test_services_that_are_killed_are_missed_at_once(runtime):
    with load(SHARD, window_batches=1, epochs=1) as loader:
        iteration = iter(loader)
        next(iteration)
        os.kill(only(runtime).pid, signal.SIGKILL)
        with pytest.raises(headwater.WorkerError, match="the local services have ended"):
            for _ in iteration:
                pass
    # Its socket and token are left, and in nobody's way.
    assert len(left_in(runtime)) == 2
    with load(SHARD) as loader:
        assert len(epoch(loader)) == 16
        services = only(runtime)
    assert services.has_ended()
    assert left_in(runtime) == []


def test_signals_for_a_whole_job_do_not_end_the_services(runtime):
    with load(SHARD, window_batches=1) as loader:
        iteration = iter(loader)
        next(iteration)
        for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
            os.kill(only(runtime).pid, getattr(signal, name))
        assert sum(1 for _ in iteration) == 15
        # A terminal's signals go to its own group of processes.
        assert os.getpgid(only(runtime).pid) != os.getpgrp()


SLOW = """
import headwater, sys
try:
    headwater.Loader(sys.argv[1], recipe="dinov2", **({"embedded": "threads"} if sys.argv[2:] else {}))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.readline()
"""


@BOTH
def test_ctrl_c_ends_the_wait_for_indices(place, runtime):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tar"
        command = [sys.executable, "-c", SLOW, url, *place.values()]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            # The storage tier asks, and is not answered.
            asked, _ = server.accept()
            with asked:
                services = [] if place else [only(runtime)]
                process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == "interrupted\n"
                assert all(one.has_ended() for one in services)
            process.communicate("end\n")
        assert process.returncode == 0


@BOTH
def test_a_terminal_shows_how_far_indexing_is_in_one_line(place, runtime):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tar"
        terminal, end = pty.openpty()
        command = [sys.executable, "-c", SLOW, url, *place.values()]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=end, text=True) as process:
            os.close(end)
            said = b""
            while not said.endswith(b"indexed"):
                said += os.read(terminal, 1024)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            process.communicate("end\n")
        line = b"\r\x1b[Kheadwater: the data is being indexed"
        assert said == line
        assert os.read(terminal, 1024) == b"\r\x1b[K"
        os.close(terminal)


@BOTH
def test_only_who_has_the_token_is_served(place):
    with load(SHARD, **place) as loader:
        config = loader.config
        found = {key: config[key] for key in ("storage", "workers")}
        with pytest.raises(headwater.StorageError, match="the caller has no token"):
            headwater.Loader(datasets="data", recipe=SMALL, worker_wait_ms=1, **found)


def test_another_thread_that_closes_the_loader_ends_them(runtime):
    loader = load(SHARD)
    services = only(runtime)
    closing = threading.Thread(target=loader.close)
    closing.start()
    closing.join()
    assert services.has_ended()
    with pytest.raises(headwater.ClosedError):
        iter(loader)


BOUND = """
say(loader.config["storage"][0], loader.config["workers"][0])
told()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_ranks_with_cores_of_their_own_have_a_worker_each_on_them(runtime):
    allowed = os.sched_getaffinity(0)
    cores, ranks = sorted(allowed)[:2], []
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            ranks.append(Rank(SHARD, BOUND, JOB))
        assert ranks[0].hear() == ranks[1].hear()
        storage, workers = zip(*(rank.hear() for rank in ranks))
        assert storage[0] == storage[1] and workers[0] != workers[1]
        threads = f"/proc/{only(runtime).pid}/task"
        bound = [os.sched_getaffinity(int(thread)) for thread in os.listdir(threads)]
        assert all({core} in bound for core in cores)
    finally:
        os.sched_setaffinity(0, allowed)
        for rank in ranks:
            rank.kill()
            rank.end()
