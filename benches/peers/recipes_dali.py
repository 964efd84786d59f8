"""DINOv2's augmentation by NVIDIA DALI, on the CPU or on a GPU. Gates are DALI's conditionals, so that work
that a gate shuts out is not done."""

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


def view(image, size, scale, blur, solarize):
    uniform = fn.random.uniform
    x = fn.random_resized_crop(
        image,
        size=[size, size],
        random_area=list(scale),
        interp_type=types.INTERP_CUBIC,
        antialias=True,
    )
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
    return fn.crop_mirror_normalize(
        x,
        dtype=types.FLOAT16,
        output_layout="CHW",
        mean=MEAN_255,
        std=STD_255,
        mirror=fn.random.coin_flip(probability=0.5),
    )


def views(image):
    """The ten views of an image, wherever it lies."""
    first = view(image, *GLOBAL, BLUR[0], False)
    second = view(image, *GLOBAL, BLUR[1], True)
    return first, second, *[view(image, *LOCAL, BLUR[2], False) for _ in range(LOCALS)]


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


@pipeline_def(enable_conditionals=True)
def gpu_pipeline(batches, hw_decoder_load):
    """All of it on a GPU: the JPEG engines take so large a share of the images, kernels the others.
    `batches` gives encoded images without end."""
    encoded = fn.external_source(source=batches, no_copy=True)
    image = fn.decoders.image(
        encoded, device="mixed", output_type=types.RGB, hw_decoder_load=hw_decoder_load
    )
    return views(image)
