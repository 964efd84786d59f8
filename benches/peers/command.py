"""The command line that resume.py, start.py and memory.py share."""

import argparse
import pathlib
import tempfile

from loaders import LOADERS

HERE = pathlib.Path(__file__).resolve().parent


def parser(doc, loaders=tuple(LOADERS)):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tars", type=pathlib.Path, default=HERE / "../../tests/data/photos", help="folder of the photographs")
    made.add_argument("--loaders", default=",".join(loaders), help="which, and in which order")
    made.add_argument("--workers", type=int, default=2, help="processes or threads of a loader")
    made.add_argument("--json", type=pathlib.Path, help="file for the figures; rows of other loaders in it are kept")
    made.add_argument("--plot", type=pathlib.Path, help="file for the plot, .svg")
    made.add_argument("--keep", type=pathlib.Path, help="folder for data and records, kept at the end")
    return made


def trainer(doc, step_ms):
    """With the options of a trainer that takes batches at its own pace; rows that differ only in a resume are left out."""
    made = parser(doc, [name for name in LOADERS if name not in ("torchdata-rng", "datasets-1")])
    made.add_argument("--batch", type=int, default=16)
    made.add_argument("--size", type=int, default=224, help="height and width of an image")
    made.add_argument("--step-ms", type=float, default=step_ms, help="what the trainer does with a batch")
    return made


def main(options, measure, markdown, plot):
    """Measures in a folder, prints the tables and writes the plot."""
    with tempfile.TemporaryDirectory() as folder:
        if options.keep:
            options.keep.mkdir(parents=True)
            folder = options.keep
        result = measure(options, pathlib.Path(folder))
    print(markdown(result))
    if options.plot:
        options.plot.write_text(plot(result))
