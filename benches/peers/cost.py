"""What a job costs with each way of loading, on paper: from rates that were measured, by a small model.

usage: cost.py [--gpus 256] [--rate 210450] [--gpu-hour USD] [--core-hour USD] .. [--plot FILE.svg]

Loaders that run inside the training processes have the cores of the GPU nodes and no others. Where these are too few, the
GPUs wait. Headwater's tiers and the workers of tf.data service may be nodes of their own, any number of them. Rates of a
core are those of docs/benchmarks; prices, cores of a node and what a trainer needs of them are assumptions, printed with
the table. Nothing is measured by this script.

The model: cores for an image = 1 / rate of the recipe + 1 / rate of reading. Job's rate = the wanted rate, or the cores that
are there / cores for an image. Hours of an epoch = images / job's rate. Cost = hours x (GPUs x price + rented cores x price).
"""

import argparse
import dataclasses
import json
import math
import pathlib

import drawing

# Images/s of one core, recipe `dinov2`: docs/benchmarks/recipe.md, the table of a Zen 4: the machine of pipeline.md.
TORCHVISION, DALI, ALBUMENTATIONS = 44.4, 60.9, 220.1
# The same of a worker in three tiers, in a first epoch, from 1.424 ms: docs/benchmarks/pipeline.md.
HEADWATER = 702.0
# Samples/s of one process that only reads: docs/benchmarks/storage.md, "Ways to samples". Others were not measured.
WEBDATASET, STREAMING, DATASETS = 5010, 1030, 4280
# What a worker's reads by gRPC take (core seconds a GB), and the receiver for each image: docs/sizing.md.
MOVE_S_GB, RECEIVE_MS, PHOTO_GB = 0.51, 0.035, 115e-6

# Images/s of one H200: docs/benchmarks/gpu.md, DALI in batches of 64, not tuned further.
DALI_GPU = 2857


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    #: Images/s of a core that augments.
    augment: float
    #: Samples/s of a core that reads, where that was measured.
    read: "float | None" = None
    #: Whether it rents nodes that augment, else it has the cores of the GPU nodes.
    rents: bool = False
    #: Whether it rents storage nodes, from which it reads over gRPC.
    stores: bool = False
    #: Images/s of a GPU that augments between its steps, in place of cores.
    gpu: "float | None" = None


WAYS = [
    Way("Headwater, nodes of its own", HEADWATER, rents=True, stores=True),
    Way("Headwater, on the GPU nodes", HEADWATER),
    # tf.data's own rate is not measured: that of another library stands in for it.
    Way("tf.data service, if it is as fast as albumentations", ALBUMENTATIONS, rents=True),
    Way("tf.data service, if it is as fast as DALI on the CPU", DALI, rents=True),
    Way("StatefulDataLoader, torchvision", TORCHVISION),
    Way("WebDataset, torchvision", TORCHVISION, WEBDATASET),
    Way("Mosaic Streaming, torchvision", TORCHVISION, STREAMING),
    Way("Hugging Face datasets, torchvision", TORCHVISION, DATASETS),
    Way("Grain or LitData, torchvision", TORCHVISION),
    Way("any of these, DALI on the CPU", DALI),
    Way("any of these, albumentations", ALBUMENTATIONS),
    Way("DALI on the GPUs that train", DALI, gpu=DALI_GPU),
]


def cost(way, options):
    seconds = 1 / way.augment + (1 / way.read if way.read else 0)
    wanted = options.rate
    nodes = options.gpus / options.gpus_per_node
    at_hand = nodes * (options.node_cores - options.gpus_per_node * options.trainer_cores)
    moving = MOVE_S_GB * PHOTO_GB if way.stores else 0
    augmenting = wanted * (seconds + moving) / options.busy
    rented = 0
    if way.gpu:
        # A GPU trains or augments: the times of an image add up.
        augmenting, rate = 0, options.gpus / (options.gpus / wanted + 1 / way.gpu)
    elif way.rents:
        rented = math.ceil(augmenting / options.augment_node_cores) * options.augment_node_cores
        rented, rate = rented + (options.storage_cores if way.stores else 0), wanted
    else:
        rate = min(wanted, at_hand * options.busy / seconds)
    needed = rented or augmenting
    if way.augment == HEADWATER:
        needed += wanted * RECEIVE_MS / 1000 / options.busy
    hours = options.images / rate / 3600
    return {
        "way": way.name,
        "core_rate": None if way.gpu else 1 / seconds,
        "cores_needed": needed,
        "cores_rented": rented,
        "rate": rate,
        "gpus_wait": 1 - rate / wanted,
        "hours": hours,
        "gpu_usd": hours * options.gpus * options.gpu_hour,
        "core_usd": hours * rented * options.core_hour,
    }


def short(value):
    """Three digits: the assumptions allow no more."""
    if not value:
        return "" if value is None else "0"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(0, places)}f}"


def markdown(options, rows):
    at_hand = options.node_cores - options.gpus_per_node * options.trainer_cores
    lines = [
        "Assumed:",
        "",
        f"- {options.gpus} GPUs take {options.rate:,.0f} images/s together; the job has {options.images:,.0f} images.",
        f"- Nodes have {options.gpus_per_node} GPUs and {options.node_cores} cores. Each trainer takes {options.trainer_cores:g} cores, so "
        f"{at_hand:g} are left to a loader. Cores are {options.busy:.0%} busy.",
        f"- Augment nodes have {options.augment_node_cores} cores; storage nodes have {options.storage_cores} cores together.",
        f"- A GPU's hour costs {options.gpu_hour:g} USD, a rented core's hour {options.core_hour:g} USD.",
        "",
        "| way | images/s a core | cores needed | of these rented | images/s | GPUs wait | hours | GPUs, USD | cores, USD | sum, USD |",
        "| --- " * 10 + "|",
    ]
    for row in rows:
        total = row["gpu_usd"] + row["core_usd"]
        figures = [row[key] for key in ("core_rate", "cores_needed", "cores_rented", "rate")]
        costs = [row["hours"], row["gpu_usd"], row["core_usd"], total]
        cells = [row["way"], *map(short, figures), f"{row['gpus_wait']:.0%}", *map(short, costs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(options, rows):
    bars = [(row["way"], (row["gpu_usd"] + row["core_usd"],)) for row in rows]
    title = f"{options.images / 1e9:g} billion images on {options.gpus} GPUs, on paper"
    return drawing.bars(title, "USD, under the assumptions of the table", bars, ("GPUs and rented cores",), markdown(options, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=256)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--rate", type=float, default=210_450, help="images/s that all GPUs together can take")
    parser.add_argument("--images", type=float, default=1e9, help="length of the job")
    parser.add_argument("--node-cores", type=int, default=112, help="cores of a GPU node")
    parser.add_argument("--trainer-cores", type=float, default=2, help="of these, for the trainer of each GPU")
    parser.add_argument("--busy", type=float, default=0.85, help="share of a loader's cores that is planned to be used")
    parser.add_argument("--augment-node-cores", type=int, default=64, help="cores of a rented augment node")
    parser.add_argument("--storage-cores", type=int, default=48, help="of rented storage nodes: 3 of 16, docs/sizing.md")
    parser.add_argument("--gpu-hour", type=float, default=3.0, help="price of a GPU's hour in USD")
    parser.add_argument("--core-hour", type=float, default=0.04, help="price of a rented core's hour in USD")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures")
    parser.add_argument("--plot", type=pathlib.Path, help="file for the plot, .svg")
    options = parser.parse_args()
    rows = [cost(way, options) for way in WAYS]
    print(markdown(options, rows))
    if options.json:
        assumed = {key: value for key, value in vars(options).items() if isinstance(value, (int, float))}
        options.json.write_text(json.dumps({**assumed, "rows": rows}, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(plot(options, rows))


if __name__ == "__main__":
    main()
