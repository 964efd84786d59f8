"""Images per second of one core for the presets `supervised-timm` and `clip-train`: this project and its peers
in turns, over the JPEG files of a folder of tars, from the files' bytes to float tensors.

usage: presets.py OURS FOLDER [ROUNDS]
OURS is the bench `rounds` of libs/render. Started on one core by run.sh. CPU time counts. Each peer has the
recipe in its own words; what it lacks is left out, which makes it faster: see `LACKS`.
"""

import datetime
import io
import pathlib
import statistics
import sys

import numpy
import torch
from PIL import Image
from torchvision import transforms
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from measure import Loaded, Ours, cpu_model, read_photos

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CROPS = {"supervised-timm": (0.08, 1.0), "clip-train": (0.9, 1.0)}
PRESETS = tuple(CROPS)
LACKS = {
    "albumentations + OpenCV": "antialiasing; its own RandAugment is not there: two of its operations stand in",
    "DALI, CPU": "noise in the erased box, which is zero",
    "kornia-rs": "all of supervised-timm; in clip-train antialiasing",
}


class Timm:
    """timm's own transforms on Pillow images; for CLIP open_clip's, which are torchvision's."""

    def __init__(self):
        from timm.data.transforms_factory import transforms_imagenet_train

        timm = transforms_imagenet_train(
            224, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.25, re_mode="pixel", interpolation="random"
        )
        clip = transforms.Compose([
            transforms.RandomResizedCrop(224, CROPS["clip-train"], interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.ToTensor(),
            transforms.Normalize(*CLIP),
        ])
        self.made = {"supervised-timm": timm, "clip-train": clip}

    def run(self, preset, photos):
        for encoded in photos:
            self.made[preset](Image.open(io.BytesIO(encoded)).convert("RGB"))


class V2:
    """torchvision's transforms.v2 on uint8 tensors, with its own RandAugment and RandomErasing."""

    def __init__(self):
        filters = v2.InterpolationMode
        last = lambda mean_std: [v2.ToDtype(torch.float32, scale=True), v2.Normalize(*mean_std)]
        self.made = {
            "supervised-timm": v2.Compose([
                v2.RandomResizedCrop(224, CROPS["supervised-timm"], interpolation=filters.BICUBIC, antialias=True),
                v2.RandomHorizontalFlip(0.5),
                v2.RandAugment(2, 9, interpolation=filters.BILINEAR),
                *last(IMAGENET),
                v2.RandomErasing(0.25, value="random"),
            ]),
            "clip-train": v2.Compose([
                v2.RandomResizedCrop(224, CROPS["clip-train"], interpolation=filters.BICUBIC, antialias=True),
                *last(CLIP),
            ]),
        }

    def run(self, preset, photos):
        for encoded in photos:
            bytes_ = torch.frombuffer(encoded, dtype=torch.uint8)
            self.made[preset](decode_jpeg(bytes_, mode=ImageReadMode.RGB))


class OpenCv:
    """albumentations on OpenCV."""

    def __init__(self):
        import albumentations as a
        import cv2

        cv2.setNumThreads(0)
        self.cv2 = cv2
        crop = lambda preset: a.RandomResizedCrop(
            size=(224, 224), scale=CROPS[preset], interpolation=cv2.INTER_CUBIC, p=1.0
        )
        some = [
            a.Affine(rotate=(-27, 27), p=1.0), a.Affine(shear=(-15, 15), p=1.0),
            a.Affine(translate_percent=(-0.4, 0.4), p=1.0), a.Equalize(p=1.0), a.AutoContrast(p=1.0),
            a.InvertImg(p=1.0), a.Posterize(num_bits=(1, 4), p=1.0), a.Solarize(p=1.0), a.Sharpen(p=1.0),
            a.ColorJitter(brightness=(0.2, 1.8), contrast=(0.2, 1.8), saturation=(0.2, 1.8), hue=(0, 0), p=1.0),
        ]
        self.made = {
            "supervised-timm": a.Compose([
                crop("supervised-timm"), a.HorizontalFlip(p=0.5), a.OneOf(some, p=0.5), a.OneOf(some, p=0.5),
                a.Normalize(*IMAGENET), a.Erasing(scale=(0.02, 0.33), fill="random_uniform", p=0.25),
            ]),
            "clip-train": a.Compose([crop("clip-train"), a.Normalize(*CLIP)]),
        }

    def run(self, preset, photos):
        for encoded in photos:
            image = self.cv2.imdecode(numpy.frombuffer(encoded, numpy.uint8), self.cv2.IMREAD_COLOR_RGB)
            numpy.ascontiguousarray(self.made[preset](image=image)["image"].transpose(2, 0, 1))


class Dali:
    """NVIDIA DALI on the CPU, one thread."""

    BATCH = 32

    def __init__(self):
        from nvidia.dali import fn, pipeline_def, types
        from nvidia.dali.auto_aug import rand_augment

        def made(preset, mean_std):
            @pipeline_def(batch_size=self.BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1,
                          enable_conditionals=True)
            def pipeline():
                encoded = fn.external_source(name="encoded")
                image = fn.decoders.image_random_crop(
                    encoded, device="cpu", random_area=list(CROPS[preset]), random_aspect_ratio=[0.75, 4 / 3]
                )
                image = fn.resize(image, size=[224, 224], interp_type=types.INTERP_CUBIC, antialias=True)
                mirror = 0
                if preset == "supervised-timm":
                    image = rand_augment.rand_augment(image, n=2, m=9)
                    mirror = fn.random.coin_flip(probability=0.5)
                mean, std = ([255 * value for value in values] for values in mean_std)
                image = fn.crop_mirror_normalize(image, dtype=types.FLOAT16, output_layout="CHW", mean=mean, std=std,
                                                 mirror=mirror)
                if preset == "supervised-timm":
                    if fn.random.coin_flip(probability=0.25, dtype=types.BOOL):
                        image = fn.erase(image, anchor=fn.random.uniform(range=[0, 0.6], shape=2), shape=[0.4, 0.4],
                                         normalized=True, axes=[1, 2])
                return image

            built = pipeline()
            built.build()
            return built

        self.made = {"supervised-timm": made("supervised-timm", IMAGENET), "clip-train": made("clip-train", CLIP)}

    def run(self, preset, photos):
        arrays = [numpy.frombuffer(encoded, numpy.uint8) for encoded in photos]
        for start in range(0, len(arrays), self.BATCH):
            self.made[preset].feed_input("encoded", arrays[start : start + self.BATCH])
            self.made[preset].run()


class Kornia:
    """kornia-rs, which decodes, cuts and resizes."""

    def __init__(self):
        import kornia_rs
        import kornia_rs.io

        self.kornia, self.rng = kornia_rs, numpy.random.default_rng(0)
        self.decoder = kornia_rs.io.ImageDecoder()
        self.mean, self.std = (numpy.float32(values) for values in CLIP)

    def run(self, preset, photos):
        if preset != "clip-train":
            raise NotImplementedError
        for encoded in photos:
            image = self.decoder.decode(bytes(encoded))
            height, width = image.shape[:2]
            if image.ndim == 2 or image.shape[2] == 1:
                image = numpy.repeat(image.reshape(height, width, 1), 3, axis=2)
            side = numpy.sqrt(self.rng.uniform(*CROPS[preset]))
            h, w = int(height * side), int(width * side)
            top, left = self.rng.integers(0, height - h + 1), self.rng.integers(0, width - w + 1)
            cut = numpy.ascontiguousarray(image[top : top + h, left : left + w])
            view = self.kornia.resize(cut, (224, 224), "bicubic")
            ((view.astype(numpy.float32) / 255 - self.mean) / self.std).transpose(2, 0, 1).copy()


def contenders(ours, folder, photos):
    found = {}
    for name, arguments in (("headwater", ["entries"]), ("headwater, no entry points", [])):
        program = Ours(ours, folder, *arguments)
        program.run = lambda preset, _, program=program: program.ask(preset)
        found[name] = program
    peers = {"torchvision v2, tensors": V2, "timm + Pillow": Timm, "DALI, CPU": Dali,
             "albumentations + OpenCV": OpenCv, "kornia-rs": Kornia}
    for name, kind in peers.items():
        try:
            peer = kind()
            peer.cpu_seconds = Loaded.cpu_seconds
            peer.run("clip-train", photos[:32])
            found[name] = peer
        except Exception as error:  # noqa: BLE001
            print(f"left out {name}: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def main():
    photos = read_photos(pathlib.Path(sys.argv[2]))
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    torch.set_num_threads(1)
    peers, rates = contenders(sys.argv[1], sys.argv[2], photos), {}
    # The first round warms everything up and does not count.
    for round_ in range(rounds + 1):
        for name, peer in peers.items():
            for preset in PRESETS:
                before = peer.cpu_seconds()
                try:
                    peer.run(preset, photos)
                except Exception as error:  # noqa: BLE001
                    if round_ == 0:
                        print(f"{name} has no {preset}: {type(error).__name__} {error}", file=sys.stderr)
                    continue
                spent = peer.cpu_seconds() - before
                if round_ > 0:
                    rates.setdefault((name, preset), []).append(len(photos) / spent)
        print(f"round {round_} of {rounds}", file=sys.stderr)
    medians = {key: statistics.median(values) for key, values in rates.items()}
    print(f"{datetime.date.today()}, one core of {cpu_model()}, {peers['headwater'].simd};")
    print(f"{len(photos)} photos, medians of {rounds} interleaved rounds of CPU time\n")
    print("| system | " + " | ".join(f"`{p}`, images/s | headwater is faster by" for p in PRESETS) + " | what it lacks |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in peers:
        cells = [name]
        for preset in PRESETS:
            rate = medians.get((name, preset))
            cells += ["", ""] if rate is None else [f"{rate:.0f}", f"{medians['headwater', preset] / rate:.2f} x"]
        print("| " + " | ".join([*cells, LACKS.get(name, "")]) + " |")


if __name__ == "__main__":
    main()
