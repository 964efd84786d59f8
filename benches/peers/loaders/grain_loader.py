"""Grain: a MapDataset whose random_map gets a generator from it, and the elastic iterator."""

import io

import grain
import numpy
from grain import experimental
from PIL import Image

from loaders import WEIGHTS
from loaders.data import B_BEGINS, photos


class Photos:
    def __init__(self, folder, begin):
        self.jpegs = list(photos(sorted(folder.glob("*.tar"))))
        self.begin = begin

    def __len__(self):
        return len(self.jpegs)

    def __getitem__(self, index):
        return self.begin + index, self.jpegs[index]


class Augment(grain.transforms.RandomMap):
    """What torchvision's RandomResizedCrop and RandomHorizontalFlip do, by a generator of NumPy's."""

    def __init__(self, size):
        self.size = size

    def random_map(self, sample, rng):
        id, jpeg = sample
        image = Image.open(io.BytesIO(jpeg)).convert("RGB")
        left, top, width, height = box(image.width, image.height, rng)
        image = image.resize((self.size, self.size), Image.BILINEAR, (left, top, left + width, top + height))
        pixels = numpy.asarray(image)
        if rng.random() < 0.5:
            pixels = pixels[:, ::-1]
        return id, numpy.ascontiguousarray(pixels.transpose(2, 0, 1))


def box(width, height, rng):
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        ratio = numpy.exp(rng.uniform(numpy.log(3 / 4), numpy.log(4 / 3)))
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


class Grain:
    title = "Grain"
    packages = ("grain",)
    formats = ("tar",)
    docs = "https://github.com/google/grain/blob/main/grain/_src/python/dataset/elastic_iterator.py"
    # grain.experimental.ElasticIterator.
    other_ranks = True

    def __init__(self, setup):
        begins = {"a": 0, "b": B_BEGINS}
        parts = [
            grain.MapDataset.source(Photos(setup.folder / name / "tar", begins[name]))
            .seed(setup.seed + place)
            .shuffle()
            .repeat()
            for place, name in enumerate(setup.names)
        ]
        dataset = grain.MapDataset.mix(parts, WEIGHTS) if setup.mixed else parts[0]
        dataset = dataset.seed(setup.seed).random_map(Augment(setup.size))
        options = grain.MultiprocessingOptions(num_workers=setup.workers) if setup.workers else None
        self.iterator = iter(
            experimental.ElasticIterator(
                dataset,
                setup.batch * setup.world,
                grain.sharding.ShardOptions(setup.rank, setup.world),
                multiprocessing_options=options,
            )
        )

    def batches(self):
        return self.iterator

    def state(self):
        return self.iterator.get_state()

    def load(self, state):
        self.iterator.set_state(state)
