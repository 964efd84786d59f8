"""DINOv2's augmentation by torchvision: on Pillow images, as facebookresearch/dinov2 has it
(`data/augmentations.py`, `data/transforms.py`), and on tensors by `transforms.v2`."""

import io

import torch
from PIL import Image
from torchvision import transforms
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from dinov2 import BLUR, GLOBAL, LOCAL, LOCALS, MEAN, STD


def views(module, last):
    """One transform for each of the ten views."""

    def one(size, scale, blur, solarize):
        steps = [
            module.RandomResizedCrop(
                size, scale=scale, interpolation=module.InterpolationMode.BICUBIC
            ),
            module.RandomHorizontalFlip(p=0.5),
            module.RandomApply([module.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            module.RandomGrayscale(p=0.2),
            module.RandomApply([module.GaussianBlur(9, sigma=(0.1, 2.0))], p=blur),
        ]
        if solarize:
            steps.append(module.RandomSolarize(threshold=128, p=0.2))
        return module.Compose(steps + last)

    return [
        one(*GLOBAL, BLUR[0], False),
        one(*GLOBAL, BLUR[1], True),
        *[one(*LOCAL, BLUR[2], False)] * LOCALS,
    ]


def pillow_decode(encoded):
    return Image.open(io.BytesIO(encoded)).convert("RGB")


class Pillow:
    """torchvision on Pillow images."""

    def __init__(self):
        last = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        self.views = views(transforms, last)

    def decode(self, photos):
        for encoded in photos:
            pillow_decode(encoded)

    def recipe(self, photos):
        for encoded in photos:
            image = pillow_decode(encoded)
            for view in self.views:
                view(image)


class Tensors:
    """torchvision's transforms.v2 on uint8 tensors."""

    def __init__(self):
        last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        self.views = views(v2, last)

    def decode(self, photos):
        for encoded in photos:
            decode_jpeg(torch.frombuffer(encoded, dtype=torch.uint8), mode=ImageReadMode.RGB)

    def recipe(self, photos):
        for encoded in photos:
            bytes_ = torch.frombuffer(encoded, dtype=torch.uint8)
            image = decode_jpeg(bytes_, mode=ImageReadMode.RGB)
            for view in self.views:
                view(image)
