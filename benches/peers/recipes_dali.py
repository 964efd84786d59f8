"""DINOv2's augmentation by NVIDIA DALI, on the CPU or on a GPU. Gates are DALI's conditionals, so that work
that a gate shuts out is not done, or neutral values, which do the work and spare the splitting of batches."""

import numpy
from nvidia.dali import fn, pipeline_def, types

from dinov2 import BLUR, GLOBAL, LOCAL, LOCALS, MEAN, STD

BATCH = 32
MEAN_255, STD_255 = [255 * value for value in MEAN], [255 * value for value in STD]


def gate(p):
    return fn.random.coin_flip(probability=p, dtype=types.BOOL)


@pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1)
def decode_pipeline():
    return fn.decoders.image(fn.external_source(name="encoded"), device="cpu", output_type=types.RGB)


def gated(x, blur, solarize):
    """Colours, gray, blur and solarise, each behind a conditional."""
    uniform = fn.random.uniform
    if gate(0.8):
        x = fn.color_twist(
            x,
            brightness=uniform(range=[0.6, 1.4]),
            contrast=uniform(range=[0.6, 1.4]),
            saturation=uniform(range=[0.8, 1.2]),
            hue=uniform(range=[-36.0, 36.0]),
        )
    if gate(0.2):
        x = fn.saturation(x, saturation=0.0)
    if blur > 0:
        if gate(blur):
            x = fn.gaussian_blur(x, window_size=9, sigma=uniform(range=[0.1, 2.0]))
    if solarize:
        if gate(0.2):
            x = fn.cast(x * (x < 128) + (255 - x) * (x >= 128), dtype=types.UINT8)
    return x


def neutral(x, blur, solarize):
    """The same without a conditional, but for a blur that few views have: gray is a saturation of 0 in the same call,
    and what a gate shuts out has a neutral value."""

    colour = fn.random.coin_flip(probability=0.8)
    shift = fn.random.uniform

    def jitter(by):
        return 1 + colour * shift(range=[-by, by])

    has_colour = 1.0 - fn.random.coin_flip(probability=0.2)
    x = fn.color_twist(
        x,
        brightness=jitter(0.4),
        contrast=jitter(0.4),
        saturation=jitter(0.2) * has_colour,
        hue=colour * shift(range=[-36.0, 36.0]),
    )
    if blur >= 1:
        x = fn.gaussian_blur(x, window_size=9, sigma=shift(range=[0.1, 2.0]))
    elif blur > 0:
        if gate(blur):
            x = fn.gaussian_blur(x, window_size=9, sigma=shift(range=[0.1, 2.0]))
    if solarize:
        threshold = 256 - 128 * fn.random.coin_flip(probability=0.2)
        x = fn.cast(x * (x < threshold) + (255 - x) * (x >= threshold), dtype=types.UINT8)
    return x


def view(image, size, scale, blur, solarize, change=gated):
    x = fn.random_resized_crop(
        image,
        size=[size, size],
        random_area=list(scale),
        interp_type=types.INTERP_CUBIC,
        antialias=True,
    )
    return fn.crop_mirror_normalize(
        change(x, blur, solarize),
        dtype=types.FLOAT16,
        output_layout="CHW",
        mean=MEAN_255,
        std=STD_255,
        mirror=fn.random.coin_flip(probability=0.5),
    )


def views(image, change=gated):
    """The ten views of an image, wherever it lies."""
    first = view(image, *GLOBAL, BLUR[0], False, change)
    second = view(image, *GLOBAL, BLUR[1], True, change)
    return first, second, *[view(image, *LOCAL, BLUR[2], False, change) for _ in range(LOCALS)]


@pipeline_def(
    batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1, enable_conditionals=True
)
def recipe_pipeline():
    encoded = fn.external_source(name="encoded")
    return views(fn.decoders.image(encoded, device="cpu", output_type=types.RGB))


class Dali:
    """NVIDIA DALI on the CPU, one thread."""

    def __init__(self):
        self.pipelines = {"decode": decode_pipeline(), "recipe": recipe_pipeline()}
        for pipeline in self.pipelines.values():
            pipeline.build()

    def run(self, name, photos):
        pipeline = self.pipelines[name]
        arrays = [numpy.frombuffer(encoded, numpy.uint8) for encoded in photos]
        for start in range(0, len(arrays), BATCH):
            pipeline.feed_input("encoded", arrays[start : start + BATCH])
            pipeline.run()

    def decode(self, photos):
        self.run("decode", photos)

    def recipe(self, photos):
        self.run("recipe", photos)


# Pixels of an image from which on nvJPEG reads its Huffman codes on the GPU: DALI's default.
HUFFMAN_ON_GPU = 1_000_000


@pipeline_def(enable_conditionals=True)
def gpu_pipeline(batches=None, files=None, gates="conditionals", load=0.65, huffman=HUFFMAN_ON_GPU, cache_mb=0, largest=None):
    """All of it on a GPU. The JPEG engines take the share `load` of the images, kernels the others. `batches` gives encoded
    images without end; with `cache_mb`, which needs names of images, they are read from `files`. `largest` is the height
    and width of the largest image, for which memory is taken in advance."""
    if batches is None:
        encoded, _ = fn.readers.file(files=files)
    else:
        encoded = fn.external_source(source=batches, no_copy=True)
    hints = {}
    if largest is not None:
        hints = {"preallocate_height_hint": largest[0], "preallocate_width_hint": largest[1]}
    if cache_mb:
        hints.update(cache_size=cache_mb, cache_type="threshold", cache_threshold=0)
    image = fn.decoders.image(
        encoded,
        device="mixed",
        output_type=types.RGB,
        hw_decoder_load=load,
        hybrid_huffman_threshold=huffman,
        **hints,
    )
    return views(image, {"conditionals": gated, "neutral": neutral}[gates])
