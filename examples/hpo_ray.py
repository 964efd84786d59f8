"""A search for hyper-parameters with Ray Tune: trials and their data service on one Ray cluster, bad trials stopped early.

    python examples/hpo_ray.py 'tests/data/photos/photos-00000[0-2].tar' \\
        --validation tests/data/photos/photos-000003.tar --classes 87 --plot out/hpo-ray.svg

Joins the cluster of $RAY_ADDRESS, or starts one on this host. Storage node and worker are actors there; trials find them by
the service's name, on whatever node they run. Paths of data must be there on every node.
"""

import sys
from pathlib import Path

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from search import Counts, of_search, parser, train_trial

import headwater.ray

SERVICE = "hpo"


def parse():
    parsed = parser(__doc__)
    parsed.add_argument("--service-workers", type=int, default=1, help="augment workers of the service")
    parsed.add_argument("--worker-cpus", type=float, default=1, help="cores of one worker")
    return parsed.parse_args()


def start_service(options):
    """Storage node and workers as actors; each serves its metrics on a separate port of its node."""
    settings = {"telemetry.metrics_listen": "0.0.0.0:0"}
    if options.share_bytes:
        settings["augment.share_bytes"] = options.share_bytes
    return headwater.ray.start(
        {"training": options.data, "validation": options.validation},
        name=SERVICE,
        workers=options.service_workers,
        worker_options={"num_cpus": options.worker_cpus},
        storage_options={"num_cpus": 0},
        settings=settings,
    )


def search(options, trials, folder):
    """Runs a search with `trials` trials, some at a time. Returns how many were stopped, and the best accuracy."""

    options = of_search(options, trials)

    def trial(chosen):
        # A trial's process starts in another folder: it must import from the folder of this file.
        sys.path.insert(0, folder)
        train_trial(options, chosen, lambda epoch, right: tune.report({"accuracy": right}), ray=SERVICE)

    space = {
        "learning_rate": tune.loguniform(1e-6, 1e-1),
        "weight_decay": tune.loguniform(1e-4, 1e-1),
        "width": tune.choice([16, 32, 48]),
    }
    scheduler = ASHAScheduler(max_t=options.epochs, grace_period=1, reduction_factor=2)
    config = tune.TuneConfig(
        metric="accuracy", mode="max", num_samples=trials, scheduler=scheduler, max_concurrent_trials=options.at_once
    )
    quiet = tune.RunConfig(name=f"{trials}-trials", storage_path=str(Path("out/ray").absolute()), verbose=0)
    found = tune.Tuner(trial, param_space=space, tune_config=config, run_config=quiet).fit()
    if found.errors:
        raise SystemExit(f"a trial has failed: {found.errors[0]}")
    stopped = sum(result.metrics["training_iteration"] < options.epochs for result in found)
    return stopped, found.get_best_result().metrics["accuracy"]


def main():
    options = parse()
    folder = str(Path(__file__).parent.absolute())
    ray.init(log_to_driver=False)
    with start_service(options) as service:
        counts = Counts(service.metrics.workers)
        options.data, options.validation = "training", "validation"
        for trials in map(int, options.trials.split(",")):
            counts.add(trials, *search(options, trials, folder))
        if options.plot:
            counts.plot(options.plot)


if __name__ == "__main__":
    main()
