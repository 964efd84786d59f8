"""`headwater.tensorcom` and the PyPI package tensorcom understand each other, each at either end."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import headwater
import numpy as np
import pytest
import tensorcom
import torch
import zmq
from headwater.tensorcom import Connection, load, save
from tensorcom import tenbin

LIMIT_MS = 60_000
HERE = tensorcom.Connection, Connection
# What sends, and what receives from it; the first of each pair that binds is opened first.
PAIRS = [("zpub", "zsub"), ("zrpub", "zrsub"), ("zpush", "zpull"), ("zrpush", "zrpull")]
BINDS = {"zpub", "zrsub", "zpull", "zrpush"}
ARRAYS = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::2],
    np.array([[1, 2]], dtype=np.int32),
    np.arange(3, dtype=">u2"),
]
# Tensorcom reads no array without elements or dimensions.
UNREADABLE = [np.zeros((0, 3), dtype=np.uint8), np.array(2.5, dtype=np.float16)]


def same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected):
        assert one.dtype == other.dtype.newbyteorder("=") and one.shape == other.shape
        assert np.array_equal(one, other)


@pytest.fixture
def opened():
    """Opens connections, whose receiving does not wait for good, and closes them."""
    made = []

    def open(cls, url, **options):
        made.append(cls(url, **options))
        if made[-1].socket is not None:
            made[-1].socket.setsockopt(zmq.RCVTIMEO, LIMIT_MS)
            made[-1].socket.setsockopt(zmq.SNDTIMEO, LIMIT_MS)
            made[-1].socket.setsockopt(zmq.LINGER, 0)
        return made[-1]

    yield open
    for one in made:
        one.socket and one.close()


@pytest.fixture
def ends(opened, tmp_path):
    """A sender and a receiver that have found each other."""

    def ends(sender, receiver, pair, transport, **options):
        at = f"{tmp_path}/socket" if transport else "127.0.0.1"
        classes, made, port = dict(zip(pair, (sender, receiver))), {}, "*"
        for scheme in sorted(pair, key=lambda scheme: scheme not in BINDS):
            place = at if transport else f"{at}:{port}"
            made[scheme] = opened(classes[scheme], f"{scheme}{transport}://{place}", **options)
            port = made[scheme].socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":")[-1]
        return made[pair[0]], made[pair[1]]

    return ends


def exchange(sender, receiver, arrays, pair):
    """What the receiver gets of arrays that are sent; of a PUB again and again, until the receiver has subscribed."""
    if pair[0] in ("zpush", "zrpush"):
        sender.send(arrays)
        return receiver.recv()
    done = threading.Event()

    def send():
        while not done.wait(0.01):
            sender.send(arrays)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return receiver.recv()
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("transport", ["", "+ipc"], ids=["tcp", "ipc"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("classes", [HERE, HERE[::-1]], ids=["receives", "sends"])
def test_either_end_may_be_tensorcoms(ends, classes, pair, transport):
    # Tensorcom's sender takes neither strides nor another order of bytes.
    arrays = [np.ascontiguousarray(ARRAYS[0]), ARRAYS[1]] if classes == HERE else ARRAYS
    sender, receiver = ends(*classes, pair, transport)
    same(exchange(sender, receiver, arrays, pair), arrays)


@pytest.mark.parametrize("classes", [HERE, HERE[::-1]], ids=["receives", "sends"])
def test_one_frame_holds_what_several_do(ends, classes):
    sender, receiver = ends(*classes, PAIRS[3], "", multipart=False)
    arrays = [np.ascontiguousarray(ARRAYS[0]), ARRAYS[1]]
    sender.infos = ["images", "labels"]
    sender.send(arrays)
    same(receiver.recv(), arrays)


@pytest.mark.parametrize("multipart", [True, False])
def test_arrays_without_elements_or_dimensions_arrive(ends, multipart):
    sender, receiver = ends(Connection, Connection, PAIRS[3], "", multipart=multipart)
    sender.send(UNREADABLE)
    same(receiver.recv(), UNREADABLE)


def test_received_arrays_are_the_memory_of_the_message(ends):
    sender, receiver = ends(Connection, Connection, PAIRS[3], "")
    sender.send([np.zeros(1 << 20, np.uint8), np.arange(3, dtype=np.int32)])
    images, labels = receiver.recv()
    root = images
    while isinstance(root, np.ndarray):
        root = root.base
    assert isinstance(root.obj, zmq.Frame) and images.flags.writeable
    sender.send([np.ones(1 << 20, np.uint8)])
    receiver.recv()
    assert not images.any() and labels.tolist() == [0, 1, 2]


def test_an_epoch_ends_with_total_and_converters_make_tensors(ends):
    sender, receiver = ends(Connection, Connection, PAIRS[3], "", infos=["images", "labels"])
    batch = [np.ones((4, 8, 8, 3), np.float16), np.arange(4, dtype=np.int32)]
    sender.serve([batch] * 3)
    receiver.total, receiver.converters = 8, [lambda a: torch.from_numpy(a.copy())]
    got = list(receiver)
    assert len(got) == 2 and got[0][1].tolist() == [0, 1, 2, 3]
    assert receiver.stats.count == 2 and receiver.stats.total == 2 * sum(one.nbytes for one in batch)
    receiver.infos = ["images", "classes"]
    with pytest.raises(headwater.MessageError, match="tensor 1 has the info `labels`, not `classes`"):
        receiver.recv()


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_converters_are_tensorcoms(name):
    for array in [np.ones((2, 5, 6, 3), np.float64), np.ones((5, 6, 4), np.uint8), np.arange(4, dtype=np.uint16)]:
        ours, theirs = Connection(converters=name), tensorcom.Connection(converters=name)
        one, other = ours.converters[0](array), theirs.converters[0](array)
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.array_equal(one, other)


def chunk(data: bytes, size: int | None = None) -> bytes:
    size = len(data) if size is None else size
    return b"~TenBin~" + size.to_bytes(8, "little", signed=True) + data + bytes(-len(data) % 64)


def header(code: bytes, rank: int, *dims: int) -> bytes:
    return code.ljust(8, b"\0") + bytes(8) + np.array([rank, *dims], "<i8").tobytes()


BAD = [
    ([header(b"f4", 1, 2), bytes(4)], "tensor 0: [2] of f4 needs 8 bytes, but 4 follow"),
    ([header(b"q8", 1, 1), bytes(8)], "tensor 0: 'q8' is no element type"),
    ([header(b"f4", 2, 1), bytes(4)], "tensor 0: 2 dimensions, with sizes of 1"),
    ([header(b"f4", 10, *[1] * 10), bytes(4)], "9 at most"),
    ([header(b"f4", 1, -1), bytes(4)], "tensor 0: a dimension of -1"),
    ([header(b"u1", 3, *[1 << 40] * 3), bytes(4)], "but 4 follow"),
    ([header(b"f4", 3, 0, 1 << 62, 1 << 62), b""], f"tensor 0: [0, {1 << 62}, {1 << 62}] of f4: no array can have"),
    ([header(b"f4", 2, 1 << 61, 0), b""], f"tensor 0: [{1 << 61}, 0] of f4: no array can have"),
    ([b"\xff" * 24, bytes(4)], "a name that is not ASCII"),
    ([bytes(16), bytes(4)], "too short"),
    ([bytes(27), bytes(4)], "no whole fields"),
    ([header(b"f4", 1, 1), bytes(4), bytes(8)], "3 parts, an odd number"),
    ([chunk(header(b"u1", 1, 4)) + chunk(bytes(4))], "set multipart=False"),
]


@pytest.mark.parametrize("frames, said", BAD, ids=range(len(BAD)))
def test_a_bad_message_names_the_url_and_what_is_wrong(opened, frames, said):
    receiver = opened(Connection, "zpull://127.0.0.1:*")
    sender = receiver.context.socket(zmq.PUSH)
    sender.connect(receiver.socket.getsockopt_string(zmq.LAST_ENDPOINT))
    sender.send_multipart(frames)
    sender.send_multipart([header(b"u1", 1, 2), b"\1\2"])
    try:
        with pytest.raises(headwater.MessageError) as error:
            receiver.recv()
        assert str(error.value).startswith("zpull://127.0.0.1:*: ") and said in str(error.value)
        # The stream goes on behind it.
        assert receiver.recv()[0].tolist() == [1, 2]
    finally:
        sender.close(0)


def test_files_are_tensorcoms(tmp_path):
    for number in range(3):
        tenbin.save(f"{tmp_path}/b-{number:03}.ten", np.full((2, 3), number, np.float32), infos=["images"])
    read = list(Connection(f"file:{tmp_path}/b-{{000..}}.ten"))
    assert [batch[0].tolist() for batch in read] == [[[n] * 3] * 2 for n in range(3)]
    assert load(tmp_path / "b-001.ten", infos=True)[1] == ["images"]
    with pytest.raises(FileNotFoundError, match="b-003.ten"):
        list(Connection(f"file:{tmp_path}/b-{{000..003}}.ten"))
    with pytest.raises(FileNotFoundError, match="c-0.ten"):
        Connection(f"file:{tmp_path}/c-{{0..}}.ten").recv()
    save(tmp_path / "ours.ten", *ARRAYS, infos=list("abc"))
    arrays, infos = tenbin.load(f"{tmp_path}/ours.ten", infos=True)
    same(arrays, ARRAYS)
    assert infos == list("abc")


@pytest.mark.parametrize(
    "data, said",
    [
        (b"GET / HTTP/1.1", "byte 0 does not begin with ~TenBin~"),
        (chunk(header(b"u1", 1, 4)) + chunk(bytes(4), 5000), "byte 80 says that it has 5000 bytes, and 64 are left"),
        (chunk(header(b"u1", 1, 4), -1), "says that it has -1 bytes"),
        (chunk(header(b"u1", 1, 4)), "1 parts, an odd number"),
        (b"~TenBin~\0", "ends in its length"),
    ],
    ids=range(5),
)
def test_a_bad_file_is_named(tmp_path, data, said):
    file = tmp_path / "bad.ten"
    file.write_bytes(data)
    with pytest.raises(headwater.MessageError) as error:
        load(file)
    assert str(error.value).startswith(f"{file}: ") and said in str(error.value)


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://a:1", "schemes are zpush, zpull"),
        ("zsub://host", "give a port, as in zsub://host:7404"),
        ("zsub+udp://host:1", "`udp` is no transport"),
        ("zsub+ipc://run", "give the path"),
        ("zsub://h:{9..1}", "in order"),
        ("zsub://h:{9", "braces hold"),
        (["zsub://127.0.0.1:1", "zpull://127.0.0.1:*"], "all of one kind"),
        (["zsub://127.0.0.1:1", "file:a.ten"], "sockets or files"),
        ("file:{0..}.tar", "write file:batches-{000000..}.ten"),
        ("file://host/a.ten", "path of this host"),
        ("zpull://192.0.2.1:7404", "is it free, and of this host?"),
    ],
)
def test_what_cannot_be_an_address_is_refused_with_the_remedy(url, said):
    with pytest.raises(headwater.ConfigError) as error:
        Connection(url)
    assert said in str(error.value) and (url if isinstance(url, str) else url[1]) in str(error.value)


def test_braces_stand_for_several_addresses(opened, tmp_path):
    senders = [opened(tensorcom.Connection, f"zrpush+ipc://{tmp_path}/{n}") for n in ("07", "08")]
    receiver = opened(Connection, f"zrpull+ipc://{tmp_path}/{{07..08}}")
    for number, sender in enumerate(senders):
        sender.send([np.array([number], np.int32)])
    assert sorted(receiver.recv()[0].item() for _ in senders) == [0, 1]


@pytest.mark.parametrize(
    "arrays, options, said",
    [
        ([np.zeros(2)], {}, "array 0 is float64: send 32 bits, or set allow64=True"),
        ([np.zeros(2, np.uint32)], {"allow64": True}, "array 0 is uint32, which Tensorcom's clients cannot read"),
        ([np.zeros((1,) * 10, np.uint8)], {}, "10 dimensions: 9 at most"),
        ([np.zeros(1, np.uint8)], {"infos": ["images", "labels"]}, "2 infos for 1 arrays"),
        ([np.zeros(1, np.uint8)], {"infos": ["too long for it"]}, "8 characters of ASCII at most"),
    ],
)
def test_what_clients_could_not_read_is_not_sent(opened, arrays, options, said):
    with pytest.raises(ValueError, match=said):
        opened(Connection, "zrpush://127.0.0.1:*", **options).send(arrays)


def test_the_batches_of_a_loader_can_be_sent(ends, make):
    sender, receiver = ends(Connection, tensorcom.Connection, PAIRS[3], "")
    batch = next(iter(make()))
    tensors = [tensor for _, tensor in batch.items()]
    sender.send(tensors, allow64=True)
    same(receiver.recv(), [tensor.numpy() for tensor in tensors])


def test_a_connection_of_the_other_direction_says_so(opened):
    with pytest.raises(headwater.ConfigError, match="zpull://127.0.0.1:\\* receives: send to zpush"):
        opened(Connection, "zpull://127.0.0.1:*").send([np.zeros(1, np.uint8)])
    with pytest.raises(headwater.ConfigError, match="sends: receive with zpull"):
        opened(Connection, "zrpush://127.0.0.1:*").recv()
    with pytest.raises(headwater.ClosedError, match="the Connection is not open"):
        Connection().recv()


def test_without_pyzmq_the_remedy_is_said(tmp_path):
    (tmp_path / "zmq.py").write_text("raise ImportError('no zmq here')")
    code = "from headwater.tensorcom import Connection; Connection('zsub://127.0.0.1:1')"
    path = os.pathsep.join([str(tmp_path), str(Path(headwater.__file__).parents[1])])
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert "pip install 'headwater[tensorcom]'" in ran.stderr.splitlines()[-1], ran.stderr
