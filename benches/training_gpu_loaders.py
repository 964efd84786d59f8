"""The loaders of benches/training_gpu.py: each gives global and local crops, batch after batch, on the training's device.

`epoch()` begins an epoch and returns its batches; `close()` ends everything that was started.
"""

import itertools
import json
import math
import subprocess
import time
from pathlib import Path

import headwater
import torch
from dinov2 import GLOBAL, LOCAL, LOCALS, MEAN, STD
from recipes_torch import views
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2


class Encoded(Dataset):
    """JPEGs in memory; the ten crops of one, by torchvision."""

    def __init__(self, samples):
        last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToDtype(torch.bfloat16)]
        self.samples, self.views = samples, views(v2, last)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        encoded = torch.frombuffer(bytearray(self.samples[index]), dtype=torch.uint8)
        pixels = decode_jpeg(encoded, mode=ImageReadMode.RGB)
        return [view(pixels) for view in self.views]


class Torch:
    """PyTorch's DataLoader; its processes make parts of a batch, which are joined on the device."""

    def __init__(self, samples, _folder, options):
        # Each process makes a part of a batch: none waits for a whole one by a single process.
        self.parts = math.gcd(options.batch_size, options.threads)
        self.device = torch.device(options.device)
        self.loader = DataLoader(
            Encoded(samples),
            options.batch_size // self.parts,
            shuffle=True,
            drop_last=True,
            num_workers=options.threads,
            multiprocessing_context="fork",
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator().manual_seed(0),
        )

    def epoch(self):
        parts = iter(self.loader)
        return (self.joined(list(batch)) for batch in zip(*[parts] * self.parts))

    def joined(self, parts):
        def crops(places):
            rows = [part[place].to(self.device, non_blocking=True) for place in places for part in parts]
            return torch.cat(rows)

        return crops(range(2)), crops(range(2, 2 + LOCALS))

    def close(self):
        self.loader = None


class Dali:
    """NVIDIA DALI, with the settings that dali_gpu.py has found."""

    def __init__(self, samples, _folder, options):
        import numpy
        from dali_gpu import PREFETCH, SETTINGS, batches, size_of
        from nvidia.dali.plugin.pytorch import feed_ndarray
        from recipes_dali import gpu_pipeline

        settings = {name: values[0] for name, values in SETTINGS.items()}
        if options.dali:
            settings.update(json.loads(options.dali.read_text()))
        count, self.batch, self.feed = settings["pipelines"], options.batch_size, feed_ndarray
        arrays = [numpy.frombuffer(encoded, numpy.uint8) for encoded in samples]
        sizes = [size_of(array) for array in arrays]
        self.device = torch.device(options.device)
        self.pipelines = [
            gpu_pipeline(
                batches=batches(arrays[number::count], self.batch),
                gates=settings["gates"],
                load=settings["load"],
                huffman=settings["huffman"],
                largest=tuple(max(size[side] for size in sizes) for side in range(2)),
                batch_size=self.batch,
                num_threads=max(1, options.threads // count),
                device_id=self.device.index or 0,
                prefetch_queue_depth=PREFETCH,
            )
            for number in range(count)
        ]
        for pipeline in self.pipelines:
            pipeline.build()

    def epoch(self):
        for pipeline in itertools.cycle(self.pipelines):
            made = pipeline.run()
            yield self.joined(made[:2], GLOBAL[0]), self.joined(made[2:], LOCAL[0])

    def joined(self, made, size):
        crops = torch.empty(len(made) * self.batch, 3, size, size, dtype=torch.float16, device=self.device)
        for rows, crop in zip(crops.split(self.batch), made):
            self.feed(crop.as_tensor(), rows, cuda_stream=torch.cuda.current_stream())
        return crops

    def close(self):
        self.pipelines.clear()


class Headwater:
    """Services of its own over the shards in a folder, and a receiver that has batches on the device."""

    def __init__(self, _samples, folder, options, backend="cpu"):
        self.program, self.folder, self.services = options.headwater, folder, []
        kernels = Path(folder) / "kernels"
        try:
            storage, _ = self.start("storage", "--index-dir", folder, "--dataset", f"photos={folder}/*.tar")
            settings = {"augment.backend": backend, "augment.threads": options.threads}
            links = {}
            if backend == "cuda":
                links = {"links": ["cuda"]}
                settings |= {
                    "augment.links": '["cuda"]',
                    "augment.cuda_memory_bytes": options.worker_memory,
                    "augment.cuda_cache_dir": kernels,
                }
            settings = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            worker, self.log = self.start("augment", "--storage", storage, *settings)
            self.loader = headwater.Loader(
                storage=[storage],
                workers=[worker],
                datasets="photos",
                recipe={"preset": "dinov2", "dtype": "bf16"},
                batch_size=options.batch_size,
                device=options.device,
                **links,
            )
        except BaseException:
            self.close()
            raise

    def start(self, verb, *arguments):
        """Starts one of the program's services; its address and its log."""
        log = Path(self.folder) / f"{verb}-{id(self)}.log"
        with log.open("w") as out:
            command = [*self.program, verb, "--listen", "127.0.0.1:0", *map(str, arguments)]
            self.services.append(subprocess.Popen(command, stdout=out, stderr=out))
        while "listening on " not in log.read_text():
            if self.services[-1].poll() is not None:
                raise RuntimeError(f"{verb} does not listen: {log.read_text()}")
            time.sleep(0.05)
        return log.read_text().split("listening on ", 1)[1].split()[0], log

    def epoch(self):
        batches = iter(self.loader)
        return ((batch.global_crops.torch(), batch.local_crops.torch()) for batch in batches)

    def close(self):
        if loader := self.__dict__.pop("loader", None):
            loader.close()
        for service in self.services:
            service.kill()
            service.wait()
        # A worker goes on without a GPU that has failed.
        if "the device failed" in (said := self.log.read_text() if hasattr(self, "log") else ""):
            raise RuntimeError(f"the worker's GPU failed: {said[-500:]}")


def headwater_on_gpu(samples, folder, options):
    return Headwater(samples, folder, options, "cuda")


LOADERS = {"torch": Torch, "dali": Dali, "cpu": Headwater, "gpu": headwater_on_gpu}
