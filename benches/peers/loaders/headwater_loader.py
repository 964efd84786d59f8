"""Headwater: the loader starts its services by itself and augments by its own recipe."""

import numpy

from loaders import WEIGHTS, Stateful


class Headwater(Stateful):
    title = "Headwater"
    packages = ("headwater",)
    formats = ("tar",)
    docs = "docs/python.md"
    # Whether the documentation says that a state may be loaded on another number of ranks.
    other_ranks = True

    def __init__(self, setup):
        import headwater

        view = {
            "crop": {"kind": "random_resized", "scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3]},
            "ops": [{"op": "flip", "p": 0.5}],
        }
        images = {"name": "images", "dtype": "u8", "height": setup.size, "width": setup.size, "views": [view]}
        weights = list(zip(setup.names, WEIGHTS)) if setup.mixed else list(setup.names)
        self.loader = headwater.Loader(
            {name: f"{setup.folder}/{name}/tar/*.tar" for name in setup.names},
            datasets=weights,
            recipe={"tensors": [images]},
            label_field="",
            batch_size=setup.batch,
            rank=setup.rank,
            world_size=setup.world,
            seed=setup.seed,
            augment_threads=setup.workers,
        )

    def batches(self):
        while True:
            for batch in self.loader:
                ids = numpy.array([int(sample.key) for sample in batch.samples])
                yield ids, batch.images.numpy()
