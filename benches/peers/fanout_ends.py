"""The two ends of fanout.py's ways: what a trial receives with, and senders in Python. A process of its own each:
fanout_ends.py ROLE OPTIONS_AS_JSON.
"""

import argparse
import itertools
import json
import pathlib
import socket
import sys
import time

LINE_BYTES = 64
# Different batches that a sender in Python sends again and again.
PREPARED = 8
SEED = 1
# Batches that are kept for trials which are behind.
HOST_BATCHES = 32


# === what a trial does ===


def take(batches, options):
    """Takes `options.count` batches after some, and says when, and what the first one was."""
    import numpy
    import xxhash

    print("ready", flush=True)
    times, first, size = [], xxhash.xxh3_128(), 0
    for number, arrays in enumerate(batches):
        for array in arrays:
            flat = numpy.asarray(array).reshape(-1).view(numpy.uint8)
            int(flat[::LINE_BYTES].sum())
            if number == 0:
                first.update(flat)
            size += flat.nbytes
        times.append(time.monotonic())
        if len(times) == options.warm_up + options.count:
            break
    report = {
        "begin": times[options.warm_up - 1],
        "end": times[-1],
        "bytes": size / len(times),
        "first": first.hexdigest(),
    }
    print("report", json.dumps(report), flush=True)
    # It ends when the parent has looked at its CPU time.
    sys.stdin.read()


def tensorcom_trial(options):
    from tensorcom import Connection

    take(Connection(options.url).items(), options)


def headwater_client_trial(options):
    from headwater.tensorcom import Connection

    take(Connection(options.url), options)


def receiver_trial(options):
    take(([tensor.numpy() for _, tensor in batch.items()] for batch in receiver(options)), options)


def shared_copy_trial(options):
    shared = receiver(options, host_share=True, host_batches=HOST_BATCHES)
    take(([tensor.numpy() for _, tensor in batch.items()] for batch in shared), options)


def receiver(options, **more):
    """Batches without end."""
    import headwater

    loader = headwater.Loader(
        storage=options.storage, workers=options.workers, datasets="samples", seed=SEED, batch_size=options.batch,
        recipe={"preset": "raw", "raw_bytes_max": options.sample_bytes}, **dict(options.loader_option), **more,
    )  # fmt: skip
    while True:
        yield from loader


def webdataset_trial(options):
    take(dataloader(options), options)


def dataloader(options):
    """Batches without end, in an order of their own."""
    import numpy
    import webdataset
    from torch.utils.data import DataLoader

    def sample(fields):
        image, label = fields
        return numpy.frombuffer(image, numpy.uint8).copy(), int(label)

    tars = sorted(map(str, pathlib.Path(options.folder).glob("*.tar")))
    samples = webdataset.WebDataset(tars, shardshuffle=False, resampled=False).repeat().shuffle(256)
    samples = samples.to_tuple("jpg", "cls").map(sample)
    return DataLoader(samples, options.batch, num_workers=options.threads)


def tensorsocket_trial(options):
    from tensorsocket import TensorConsumer

    first, *others = (int(port) for port in options.url.split(","))
    consumer = TensorConsumer(first, others[0], tuple(others[1:]), batch_size=options.batch)

    def batches():
        while True:
            yield from consumer

    take(batches(), options)


# === what a sender does ===


def prepared(options):
    import numpy

    with numpy.load(options.prepared) as file:
        arrays = [file[name] for name in sorted(file.files)]
    each = len(arrays) // PREPARED
    return [arrays[at : at + each] for at in range(0, len(arrays), each)]


def tensorcom_sender(options):
    send_by_tensorcom(itertools.cycle(prepared(options)), options)


def tensorcom_loading_sender(options):
    import numpy

    batches = dataloader(options)
    send_by_tensorcom(([images.numpy(), labels.numpy().astype(numpy.int32)] for images, labels in batches), options)


def send_by_tensorcom(batches, options):
    """An address for each trial, as nothing is to be lost."""
    import zmq
    from tensorcom import Connection

    connections = [Connection("zrpush://127.0.0.1:*") for _ in range(options.senders)]
    for connection in connections:
        port = connection.socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":")[-1]
        # As `headwater publish` has it.
        connection.socket.setsockopt(zmq.SNDHWM, 4)
        print("publishing on", f"zrpush://127.0.0.1:{port}", flush=True)
    for batch in batches:
        for connection in connections:
            connection.send(batch)


def tensorsocket_sender(options):
    import torch
    from tensorsocket import TensorProducer

    batches = [[torch.from_numpy(array) for array in batch] for batch in prepared(options)]

    class Source:
        def __len__(self):
            return options.warm_up + options.count

        def __iter__(self):
            return itertools.islice(itertools.cycle(batches), len(self))

    first = free_port()
    ports = [first, *(free_port() for _ in range(3))]
    producer = TensorProducer(Source(), ports[0], ports[1], tuple(ports[2:]), consumer_max_buffer_size=10)
    print("publishing on", ",".join(map(str, ports)), flush=True)
    while True:
        for _ in producer:
            pass


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def main():
    role, told = sys.argv[1:]
    globals()[role](argparse.Namespace(**json.loads(told)))


if __name__ == "__main__":
    main()
