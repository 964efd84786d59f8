#!/usr/bin/env python3
"""Image decoding in the benchmarks that torchcodec and SPDL publish, with Headwater as one more entry.

    benches/peers/suites.py torchcodec-photos CHECKOUT FOLDER [--rounds 3]
    benches/peers/suites.py torchcodec CHECKOUT FOLDER [--rounds 3] [--images 3] [--runs 20]
    benches/peers/suites.py spdl CHECKOUT FOLDER [--rounds 3] [--copies 4]

CHECKOUT is the suite's source tree, FOLDER has tars with .jpg members. The suite's files are imported as they are.
Where a suite calls its own function that times or runs one entry, it calls `beside` here, which calls the suite's
function for that entry, and then once more for Headwater. Prints Markdown. Needs what requirements-suites.txt lists.
"""

import argparse
import datetime
import importlib.metadata
import importlib.util
import statistics
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

from measure import cpu_model, read_photos

#: The whole image resized to 224 x 224 by the bilinear filter, which is also the suite's filter for Pillow.
WHOLE_IMAGE = {"preset": "siglip", "interpolation": "bilinear"}
SIDE = 224


def loaded(path: Path) -> ModuleType:
    """A suite's file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def spread(photos: list, count: int) -> list:
    """This number of photos, at equal distances."""
    return [photos[index * len(photos) // count] for index in range(count)]


def table(head: "list[str]", rows: "list[list[str]]") -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


def shown(values: "list[float]", digits: int) -> str:
    """The median, empty where an entry has no value."""
    return f"{statistics.median(values):.{digits}f}" if values else ""


class Torchcodec:
    """torchcodec's benchmark of image decoders."""

    FILE = "benchmarks/decoders/benchmark_image_decoders.py"

    def __init__(self, checkout: Path):
        self.suite = suite = loaded(checkout / self.FILE)
        self.entries = {
            suite.decode_torchcodec: "torchcodec",
            suite.decode_torchvision: "torchvision",
            suite.decode_pil: "Pillow",
            suite.decode_ffmpeg: "FFmpeg path",
            self.decode: "headwater.decode",
        }
        self.time, suite.bench = suite.bench, self.beside
        #: Medians in ms by file name and entry, one for each image and round.
        self.found = defaultdict(list)

    @staticmethod
    def decode(path, raw, from_file):
        """Headwater's entry, with the arguments of Pillow's: `u8[3, height, width]`, a view as torchvision's is."""
        import headwater

        return headwater.decode([path if from_file else raw])[0].torch().permute(2, 0, 1)

    def beside(self, decode, **options):
        """Stands in for the suite's `bench`: times the entry, and Headwater after Pillow."""
        times = self.time(decode, **options)
        self.keep(decode, times)
        if decode.func is self.suite.decode_pil:
            from headwater.errors import HeadwaterError

            ours = partial(self.decode, *decode.args)
            try:
                self.keep(ours, self.time(ours, **options))
            except HeadwaterError as error:
                print(f"  [skip] {decode.args[0].suffix} headwater: {error}"[:120])
        return times

    def keep(self, decode, times) -> None:
        path = next(value for value in decode.args if isinstance(value, Path))
        self.found[path.name, self.entries[decode.func]].append(self.suite._median_ms(times))

    def run_main(self, photos: list, rounds: int, runs: int) -> None:
        """The suite's own `main`, which encodes an image at some sizes in some formats, for each of the images."""
        with tempfile.TemporaryDirectory() as folder:
            images = [Path(folder) / f"{number}.jpg" for number in range(len(photos))]
            for path, photo in zip(images, photos):
                path.write_bytes(photo)
            for _ in range(rounds):
                for path in images:
                    sys.argv = [self.FILE, "--devices", "cpu", "--num-exp", str(runs), "--image", str(path)]
                    self.suite.main()
        names = list(self.entries.values())
        files = dict.fromkeys(name for name, _ in self.found)
        rows = [[file, *(shown(self.found[file, name], 3) for name in names)] for file in files]
        print(f"\n{len(photos)} images, {rounds} rounds, {runs} runs each: medians in ms\n")
        table(["file", *names], rows)

    def run_photos(self, photos: list, rounds: int) -> None:
        """The photos' own files, by the suite's entries and its `bench`: 5 runs each, after one that does not count."""
        import torch

        calls = []
        for photo in photos:
            data, raw = torch.frombuffer(photo, dtype=torch.uint8), bytes(photo)
            calls.append({
                "torchcodec": partial(self.suite.decode_torchcodec, "jpeg", Path(), data, False),
                "torchvision": partial(self.suite.decode_torchvision, "jpeg", Path(), data, False),
                "Pillow": partial(self.suite.decode_pil, Path(), raw, False),
                "FFmpeg path": partial(self.suite.decode_ffmpeg, Path(), data, False),
                "headwater.decode": partial(self.decode, Path(), raw, False),
            })
        ours = [call["headwater.decode"]() for call in calls]
        equal = {name: sum(map(torch.equal, ours, (call[name]() for call in calls))) for name in calls[0]}
        means = defaultdict(list)
        for _ in range(rounds):
            of_round = defaultdict(list)
            for call in calls:
                for name, decode in call.items():
                    of_round[name].append(self.suite._median_ms(self.time(decode, num_exp=5, warmup=1)))
            for name, values in of_round.items():
                means[name].append(statistics.fmean(values))
        ours_ms = statistics.median(means["headwater.decode"])
        rows = [
            [name, shown(values, 3), f"{min(values):.3f} to {max(values):.3f}",
             f"{statistics.median(values) / ours_ms:.2f}", str(equal[name])]
            for name, values in means.items()
        ]
        print(f"{len(photos)} photos, mean over them; median and range of {rounds} rounds\n")
        table(["entry", "ms per photo", "range", "its time over headwater's", "photos with equal pixels"], rows)


def headwater_io(name: str) -> SimpleNamespace:
    """The functions of `spdl.io` that the suite calls, out of Headwater."""
    import headwater
    import torch
    from torchvision.transforms.v2.functional import resize

    renderer = headwater.Renderer(WHOLE_IMAGE, dtype="u8")

    def decoded(path, filter_desc):
        image = headwater.decode([path])[0].torch().permute(2, 0, 1)
        return resize(image, [SIDE, SIDE], antialias=True)

    def rendered(path, filter_desc):
        return renderer([path])["images"].torch()[0]

    return SimpleNamespace(
        get_video_filter_desc=lambda scale_width, scale_height: None,
        demux_image=lambda path: path,
        decode_packets={"headwater.decode": decoded, "headwater.render": rendered}[name],
        convert_frames=torch.stack,
        # The suite turns this to [batch, channels, height, width].
        to_torch=lambda batch: batch.permute(0, 2, 3, 1),
    )


class Spdl:
    """SPDL's benchmark of a DataLoader and its own pipeline: decode, resize, batch, normalise."""

    FILE = "examples/multi_thread_preprocessing.py"
    CASES = {
        "decode and resize": {"batch_size": None},
        "batches of 32": {"batch_size": 32},
        "batches of 32, normalised": {"batch_size": 32, "normalize": True},
    }

    def __init__(self, checkout: Path):
        self.suite = suite = loaded(checkout / self.FILE)
        self.run, suite.run_in_process = suite.run_in_process, self.beside
        self.ours = {name: headwater_io(name) for name in ("headwater.decode", "headwater.render")}
        self.case = None
        #: Images per second by case, entry and number of workers, one for each round.
        self.found = defaultdict(list)

    def beside(self, run, **options):
        """Stands in for the suite's `run_in_process`: runs the entry, and after SPDL's also Headwater's.

        Headwater's entry is the suite's function for SPDL, which finds Headwater in place of `spdl.io`.
        """
        name = {self.suite.exp_torch_: "DataLoader, Pillow", self.suite.exp_spdl_: "SPDL"}[run]
        found = self.keep(name, self.run(run, **options), options)
        if run is self.suite.exp_spdl_:
            theirs = self.suite.spdl
            for name, io in self.ours.items():
                self.suite.spdl = SimpleNamespace(io=io)
                try:
                    self.keep(name, self.run(run, **options), options)
                finally:
                    self.suite.spdl = theirs
        return found

    def keep(self, name: str, found: "tuple[int, float]", options: dict) -> "tuple[int, float]":
        images, seconds = found
        self.found[self.case, name, options["num_workers"]].append(images / seconds)
        print(f"\t\t{name}, {options['num_workers']}: {images} images, {images / seconds:.0f} a second", flush=True)
        return found

    def run_cases(self, photos: list, rounds: int, copies: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            images = imagenet(root, photos, copies)
            for _ in range(rounds):
                for self.case, options in self.CASES.items():
                    self.suite.run_test(root_dir=str(root), split="val", max_items=images, **options)
        names = list(dict.fromkeys(name for _, name, _ in self.found))
        print(f"\n{images} images, {rounds} rounds: medians in images/s\n")
        for case in self.CASES:
            workers = dict.fromkeys(count for of_case, _, count in self.found if of_case == case)
            rows = [[str(count), *(shown(self.found[case, name, count], 0) for name in names)] for count in workers]
            print(f"{case}\n")
            table(["workers", *names], rows)


def imagenet(root: Path, photos: list, copies: int) -> int:
    """Writes the folders that torchvision's `ImageNet` expects, ten classes; returns the number of images."""
    import torch

    classes = {f"n{number:08}": (f"class {number}",) for number in range(10)}
    torch.save((classes, []), root / "meta.bin")
    for name in classes:
        (root / "val" / name).mkdir(parents=True)
    names = list(classes)
    for copy in range(copies):
        for number, photo in enumerate(photos):
            (root / "val" / names[number % len(names)] / f"{copy}_{number}.JPEG").write_bytes(photo)
    return copies * len(photos)


def versions() -> str:
    names = ("headwater", "torch", "torchvision", "torchcodec", "spdl-io", "Pillow")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=("torchcodec-photos", "torchcodec", "spdl"))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=3, help="source images of torchcodec's main")
    parser.add_argument("--runs", type=int, default=20, help="runs of each entry in torchcodec's main")
    parser.add_argument("--copies", type=int, default=4, help="how often each photo is in SPDL's dataset")
    arguments = parser.parse_args()
    photos = read_photos(arguments.folder)
    print(f"{datetime.date.today()}, {cpu_model()}, {versions()}\n", flush=True)
    if arguments.suite == "torchcodec-photos":
        Torchcodec(arguments.checkout).run_photos(photos, arguments.rounds)
    elif arguments.suite == "torchcodec":
        images = spread(photos, arguments.images)
        Torchcodec(arguments.checkout).run_main(images, arguments.rounds, arguments.runs)
    else:
        Spdl(arguments.checkout).run_cases(photos, arguments.rounds, arguments.copies)


if __name__ == "__main__":
    main()
