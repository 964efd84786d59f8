"""How many emulated accelerators a loader keeps busy in dlio_benchmark: DLIO's PyTorch loader and Headwater's, in turns.

A run of DLIO stands for K accelerators in step: K times the batch of the workload in each step, whose computing takes the workload's time.
DLIO's own summary says how much of the time they were busy (AU). A round finds the largest K with an AU of at least 90 % for each loader, over
the same files, to an eighth. The script prints the runs as they come, and then the table of medians. It makes its datasets in --work.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path

import data
import yaml

HERE = Path(__file__).resolve().parent
AU_PERCENT = 90.0
STEPS_IN_EPOCH = 16  # at most
STEPS = 32  # at least, over all epochs of a run
HEADWATER = "headwater.integrations.dlio.HeadwaterLoader"
# Files of the dataset, different ones among them if DLIO makes them, the reader of DLIO's side, and the K that a first round begins with.
WORKLOADS = {
    "resnet50": (6000, None, "Images", {"dlio": 8, "headwater": 14}),
    "retinanet": (2400, None, "Images", {"dlio": 4, "headwater": 9}),
    "unet3d": (2048, 256, "Npz", {"dlio": 20, "headwater": 30}),
    "cosmoflow": (1024, 64, "Hdf5", {"dlio": 8, "headwater": 8}),
    "cosmoflow_tfrecord": (1024, 64, None, {"headwater": 8}),
}
# Threads of NumPy and of PyTorch would take the cores from the loaders.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{HERE}:{HERE / 'stand_ins'}",
    "PATH": f"{HERE / 'stand_ins'}:{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
}


def prepare():
    """Imports what a run needs, once for all: runs are forks of this process."""
    os.environ.update(ENVIRONMENT)
    sys.path[:0] = [str(HERE), str(HERE / "stand_ins")]
    import mpi4py

    mpi4py.rc.initialize = False  # DLIO does it, in the fork
    import dlio_benchmark.data_loader.torch_data_loader  # noqa: F401
    import dlio_benchmark.main  # noqa: F401
    import headwater.integrations.dlio  # noqa: F401
    import pixels  # noqa: F401


def dlio(overrides, out):
    """Runs DLIO in a fork, and says what its summary has; None if it made none."""
    pid = os.fork()
    if pid == 0:
        try:
            printed = os.open(out / "printed", os.O_CREAT | os.O_WRONLY)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            os.chdir(out)
            sys.argv = ["dlio_benchmark", "--config-dir", str(HERE), f"hydra.run.dir={out}", *overrides]
            import dlio_benchmark.main

            dlio_benchmark.main.main()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    summary = out / "summary.json"
    if status or not summary.exists():
        sys.exit(f"DLIO failed with {' '.join(overrides)}:\n{(out / 'printed').read_text()[-4000:]}")
    return json.loads(summary.read_text())["metric"]


def keys(side, reader):
    """Keys of the workload that choose the loader."""
    if side == "headwater":
        return [f"++workload.reader.data_loader_classname={HEADWATER}", "++workload.reader.data_loader_sampler=iterative"]
    if side == "dlio":
        return [f"++workload.reader.reader_classname=pixels.{reader}"]
    return []  # DLIO's reader as it is, which hands out one array for all samples


def run(work, workload, side, accelerators):
    """Utilisation of the accelerators in percent, and samples in a second."""
    files, _, reader, _ = WORKLOADS[workload]
    settings = yaml.safe_load((HERE / "workload" / f"{workload}.yaml").read_text())
    batch = settings["reader"]["batch_size"] * accelerators
    steps = files // batch
    if steps < 3:
        sys.exit(f"{workload} has too few files for {accelerators} accelerators: {files}")
    # A node keeps what it unpacks of npz files, for as long as the list of files is the same.
    if workload != "unet3d" or side != "headwater":
        steps = min(steps, STEPS_IN_EPOCH)
        files = steps * batch
    overrides = [f"workload={workload}", f"++workload.dataset.data_folder={work / workload}"]
    overrides += [f"++workload.dataset.num_files_train={files}", f"++workload.reader.batch_size={batch}"]
    overrides += [f"++workload.train.epochs={max(2, -(-STEPS // steps))}", *keys(side, reader)]
    with tempfile.TemporaryDirectory(dir=work) as out:
        metric = dlio(overrides, Path(out))
    return metric["train_au_mean_percentage"], metric["train_throughput_mean_samples_per_second"]


def largest(work, workload, side, first):
    """The largest number of accelerators that are busy, to an eighth."""
    busy, idle, accelerators = 0, None, first
    while idle is None or idle - busy > max(busy // 8, 1):
        percent, samples = run(work, workload, side, accelerators)
        load = os.getloadavg()[0]
        print(f"  {side:10} {accelerators:4}: AU {percent:5.1f} %, {samples:7.1f} samples/s, load {load:.1f}", flush=True)
        if percent >= AU_PERCENT:
            busy = accelerators
            accelerators = (busy + idle) // 2 if idle else busy + max(busy // 4, 1)
        else:
            idle = accelerators
            accelerators = (busy + idle) // 2 if busy else round(idle * percent / AU_PERCENT)
            accelerators = min(max(accelerators, busy + 1), max(idle - 1, 1))
            if idle == 1:
                return 0
    return busy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="folder with .jpg files, or with tars of them")
    parser.add_argument("--work", default="out/dlio/data", type=Path, help="folder for the datasets, 3 GB")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, by commas")
    parser.add_argument("--own-reader", action="store_true", help="DLIO's reader as it is, too: it hands out no pixels")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    chosen = arguments.only.split(",")
    kinds = {}
    for workload in chosen:
        files, different, _, _ = WORKLOADS[workload]
        kinds[workload] = yaml.safe_load((HERE / "workload" / f"{workload}.yaml").read_text())["dataset"]["format"]
        if (work / workload).exists():
            continue
        if different is None:
            data.images(work / workload, kinds[workload], files, arguments.photos)
        else:
            data.arrays(work / workload, workload, kinds[workload], files, different, ENVIRONMENT)
    prepare()
    found = {workload: {side: [] for side in WORKLOADS[workload][3]} for workload in chosen}
    if arguments.own_reader:
        for sides in found.values():
            sides.update({"unchanged": []} if "dlio" in sides else {})
    loads = {workload: [] for workload in chosen}
    for number in range(arguments.rounds):
        for workload in chosen:
            print(f"{workload}, round {number + 1}, {time.strftime('%H:%M:%S')}", flush=True)
            for side, of_side in found[workload].items():
                firsts = WORKLOADS[workload][3]
                of_side.append(largest(work, workload, side, max(of_side[-1], 1) if of_side else firsts.get(side, firsts.get("dlio"))))
                loads[workload].append(os.getloadavg()[0])
    show(found, kinds, loads)


def show(found, kinds, loads):
    """Prints the table: medians of the rounds, for a core."""
    cores = len(os.sched_getaffinity(0))
    print("\n| workload | files | loader | accelerators a core | rounds | ratio | load |\n| --- | --- | --- | --- | --- | --- | --- |")
    names = {"dlio": "DLIO, PyTorch", "headwater": "Headwater", "unchanged": "DLIO's reader as it is"}
    for workload, sides in found.items():
        load = f"{min(loads[workload]):.1f} to {max(loads[workload]):.1f}"
        for side, rounds in sides.items():
            median = statistics.median(rounds)
            base = statistics.median(sides["dlio"]) if "dlio" in sides else 0
            ratio = f"{median / base:.1f}" if base else ""
            shown = ", ".join(map(str, rounds))
            print(f"| {workload} | {kinds[workload]} | {names[side]} | {median / cores:.1f} | {shown} | {ratio} | {load} |")


if __name__ == "__main__":
    main()
