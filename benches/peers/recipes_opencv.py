"""DINOv2's augmentation by albumentations on OpenCV. Its resize has no antialiasing: less work, and not
the recipe's pixels."""

import albumentations
import cv2
import numpy

from recipes_torch import BLUR, GLOBAL, LOCAL, LOCALS, MEAN, STD

cv2.setNumThreads(0)


def one(size, scale, blur, solarize):
    steps = [
        albumentations.RandomResizedCrop(
            size=(size, size), scale=scale, interpolation=cv2.INTER_CUBIC, p=1.0
        ),
        albumentations.HorizontalFlip(p=0.5),
        albumentations.ColorJitter(
            brightness=(0.6, 1.4), contrast=(0.6, 1.4), saturation=(0.8, 1.2), hue=(-0.1, 0.1), p=0.8
        ),
        albumentations.ToGray(p=0.2),
        albumentations.GaussianBlur(blur_limit=(9, 9), sigma_limit=(0.1, 2.0), p=blur),
    ]
    if solarize:
        steps.append(albumentations.Solarize(threshold_range=(0.5, 0.5), p=0.2))
    return albumentations.Compose([*steps, albumentations.Normalize(MEAN, STD)])


class OpenCv:
    """albumentations, with OpenCV's decoder."""

    def __init__(self):
        self.views = [
            one(*GLOBAL, BLUR[0], False),
            one(*GLOBAL, BLUR[1], True),
            *[one(*LOCAL, BLUR[2], False)] * LOCALS,
        ]

    @staticmethod
    def image(encoded):
        return cv2.imdecode(numpy.frombuffer(encoded, numpy.uint8), cv2.IMREAD_COLOR_RGB)

    def decode(self, photos):
        for encoded in photos:
            self.image(encoded)

    def recipe(self, photos):
        for encoded in photos:
            image = self.image(encoded)
            for view in self.views:
                numpy.ascontiguousarray(view(image=image)["image"].transpose(2, 0, 1))
