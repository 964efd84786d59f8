"""The shared command-line arguments of the examples, and the loader for them.

`data` is a path, a pattern or a URL: the loader starts its services on this host. With `--storage` and `--workers` the
services run already, and `data` is the name of a dataset that they serve. So it is where a launcher's variables lead to services
(HEADWATER_RECEIVER__STORAGE), and with `ray=NAME`.
"""

import argparse
import os

import headwater


def arguments(description, **before):
    """A parser with the positional arguments `before`, each with its help, then `data`, and options for its location."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    for name, meaning in before.items():
        parser.add_argument(name, help=meaning)
    parser.add_argument("data", help="path, pattern or URL; with --storage: name of a dataset")
    parser.add_argument("--storage", help="addresses of running storage nodes, host:port,..")
    parser.add_argument("--workers", help="addresses of running augment workers, host:port,..")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of a batch")
    parser.add_argument("--seed", type=int, default=0, help="seed of model, order and augmentation")
    return parser


def open_loader(options, data, **settings):
    """A loader of `data`: one dataset, or a list of several with `--storage`, or a dict of several by name."""
    if options.storage:
        names = list(data) if isinstance(data, dict) else data
        settings.update(storage=options.storage, workers=options.workers, datasets=names)
    elif "ray" in settings or "HEADWATER_RECEIVER__STORAGE" in os.environ:
        settings.update(datasets=data)
    else:
        settings.update(data=data)
    settings.setdefault("batch_size", options.batch_size)
    return headwater.Loader(seed=options.seed, **settings)


def classification(size, train):
    """A recipe with one image per sample: a random crop and a flip for training, otherwise the centre."""
    if train:
        crop = {"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [3 / 4, 4 / 3]}
        view = {"crop": crop, "ops": [{"op": "flip", "p": 0.5}]}
    else:
        view = {"crop": {"kind": "center_after_resize", "resize": size}}
    tensor = {"name": "images", "dtype": "f32", "height": size, "width": size, "views": [view]}
    return {"preset": "custom", "tensors": [tensor]}
