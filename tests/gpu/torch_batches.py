"""Batches on a real GPU in PyTorch's hands: torch_batches.py HEADWATER SHARDS

Compares them with the CPU's, value by value, on PyTorch's default stream and on others, with work queued
when a batch is dropped, and measures how long a trainer that does nothing waits. Prints Markdown. Exits
with 77 where PyTorch, its CUDA or the package `headwater` is missing.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import headwater
    import torch
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("NOT RUN: this PyTorch has no GPU")
    sys.exit(77)

# Batches at most; fewer where the shard ends.
STEPS = 24


def node(program, folder, *arguments):
    """Starts one of the program's services and gives its address."""
    log = Path(folder) / f"{arguments[0]}.log"
    with log.open("w") as out:
        process = subprocess.Popen([program, *arguments], stdout=out, stderr=out)
    for _ in range(600):
        if "listening on " in log.read_text():
            return process, log.read_text().split("listening on ", 1)[1].split()[0]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise RuntimeError(f"{arguments[0]} does not listen:\n{log.read_text()}")


def cpu(options, recipe):
    with headwater.Loader(recipe=recipe, **options) as loader:
        return [
            {name: tensor.clone() for name, tensor in batch.torch().items()}
            for _, batch in zip(range(STEPS), loader)
        ]


def same(one, other):
    """Bit for bit; FP8 and NaN have no `equal`."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def on_gpu(expected, options, recipe, **device):
    """Every batch is copied on a stream of its own turn, and dropped before the copy can have ended."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    spin = torch.zeros(1 << 26, device="cuda")
    kept = []
    with headwater.Loader(recipe=recipe, device="cuda:0", **device, **options) as loader:
        for step, batch in zip(range(STEPS), loader):
            with torch.cuda.stream(streams[step % len(streams)]):
                spin.add_(1.0)  # Keeps the stream busy, so that the copies below come late.
                tensors = batch.torch()
                kept.append({name: tensor.clone() for name, tensor in tensors.items()})
            del tensors, batch
    torch.cuda.synchronize()
    assert len(kept) == len(expected) > 3
    for step, (wanted, got) in enumerate(zip(expected, kept)):
        for name, tensor in wanted.items():
            assert same(tensor, got[name].cpu()), f"step {step}: {name} differs"


def waits(options, **device):
    """Milliseconds a batch for a trainer that takes batches and does nothing."""
    with headwater.Loader(recipe="dinov2", **device, **options) as loader:
        started, taken = time.perf_counter(), 0
        for taken, batch in zip(range(1, STEPS + 1), loader):
            tensor = batch.global_crops.torch()
            del tensor, batch
        torch.cuda.synchronize()
        return (time.perf_counter() - started) * 1e3 / taken


def main():
    program, shards = sys.argv[1:]
    # Who is told to end takes its services along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        compare(program, shards, folder)


def compare(program, shards, folder):
    storage, address = node(
        program, folder, "storage", "--listen", "127.0.0.1:0", "--index-dir", folder,
        "--dataset", f"photos={shards}",
    )
    worker = None
    try:
        worker, workers = node(
            program, folder, "augment", "--listen", "127.0.0.1:0", "--storage", address,
            "--set", "augment.backend=cpu",
        )
        options = {"datasets": ["photos"], "batch_size": 8, "storage": [address], "workers": [workers]}
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
        for dtype in ("bf16", "fp8_e4m3"):
            recipe = {"preset": "dinov2", "dtype": dtype}
            expected = cpu(options, recipe)
            for allocator in (None, "torch"):
                on_gpu(expected, options, recipe, device_allocator=allocator)
                print(f"- {len(expected)} batches of {dtype}, allocator {allocator or 'the driver'}: equal")
        expected = cpu(options, {"preset": "dinov2", "dtype": "bf16"})
        on_gpu(expected, options, {"preset": "dinov2", "dtype": "u8"}, u8_as="bf16")
        print(f"- {len(expected)} batches of u8, normalised on the GPU to bf16: equal")
        print("\n| batches of 8 samples, one worker on the CPU | ms a batch |\n| --- | ---: |")
        print(f"| in the host's memory | {waits(options):.1f} |")
        print(f"| on the GPU | {waits(options, device='cuda:0'):.1f} |")
    finally:
        for process in (storage, worker):
            if process:
                process.kill()


main()
