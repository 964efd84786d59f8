"""Objects with the attributes of DINOv2's and DINOv3's own, which adapters read: as `train.py` makes them."""

import functools
import math

import torch
from torchvision import transforms
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class GaussianBlur(transforms.RandomApply):
    """With the probability that is left."""

    def __init__(self, p):
        super().__init__([transforms.GaussianBlur(9, sigma=(0.1, 2.0))], p=1 - p)


class Augmentation:
    """`DataAugmentationDINO`, of torchvision's old or new transforms."""

    def __init__(
        self,
        kind=transforms,
        side=32,
        local_side=16,
        locals=2,
        gram=None,
        gram_is_distorted=False,
        flips=0.5,
        shared=False,
        subset=False,
        jitter_p=0.8,
    ):
        self.global_crops_size, self.local_crops_size, self.local_crops_number = side, local_side, locals
        self.global_crops_scale, self.local_crops_scale = (0.32, 1.0), (0.05, 0.32)
        self.gram_teacher_crops_size, self.gram_teacher_no_distortions = gram, gram is not None and not gram_is_distorted
        self.share_color_jitter, self.local_crops_subset_of_global_crops, self.patch_size = shared, subset, 4

        def cut(size, scale):
            bicubic = transforms.InterpolationMode.BICUBIC
            return kind.Compose([kind.RandomResizedCrop(size, scale=scale, interpolation=bicubic), kind.RandomHorizontalFlip(flips)])

        self.geometric_augmentation_global = cut(max(side, gram or 0), self.global_crops_scale)
        self.geometric_augmentation_local = cut(local_side, self.local_crops_scale)
        jitter = kind.RandomApply([kind.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=jitter_p)
        self.color_jittering = kind.Compose([jitter, kind.RandomGrayscale(0.2)])
        floats = [transforms.ToTensor()] if kind is transforms else [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        normalize = kind.Compose([*floats, kind.Normalize(MEAN, STD)])
        resize = [kind.Resize(side) if self.gram_teacher_no_distortions else torch.nn.Identity()]
        self.resize_gram_teacher = kind.Resize(gram, interpolation=transforms.InterpolationMode.BICUBIC) if gram else None

        def distorted(resized, *extra):
            return kind.Compose([*resized, *([] if shared else [self.color_jittering]), *extra, normalize])

        self.global_transfo1 = distorted(resize, GaussianBlur(1.0))
        self.global_transfo2 = distorted(resize, kind.Compose([GaussianBlur(0.1), kind.RandomSolarize(threshold=128, p=0.2)]))
        self.local_transfo = distorted([], GaussianBlur(0.5))


class MaskingGenerator:
    """A grid, and the limits of its rectangles."""

    def __init__(self, grid, max_num_patches, min_num_patches=4):
        self._grid = grid
        self.min_num_patches, self.max_num_patches = min_num_patches, max_num_patches
        self.log_aspect_ratio = (math.log(0.3), math.log(1 / 0.3))

    def get_shape(self):
        return self._grid, self._grid


def collate_data_and_cast(samples, **settings):
    raise AssertionError("it is read and never called")


def collate_fn(side=32, patch=4, **others):
    """As `train.py` makes it."""
    grid = side // patch
    generator = MaskingGenerator(grid, 0.5 * side // patch * side // patch)
    settings = {"mask_ratio_tuple": (0.1, 0.5), "mask_probability": 0.5, "dtype": torch.half, "n_tokens": grid**2}
    return functools.partial(collate_data_and_cast, **{**settings, "mask_generator": generator, **others})
