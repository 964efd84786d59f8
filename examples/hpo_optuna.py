"""A search for hyper-parameters with Optuna: separate processes, bad trials stopped early, one data service.

    python examples/hpo_optuna.py 'tests/data/photos/photos-00000[0-2].tar' \\
        --validation tests/data/photos/photos-000003.tar --classes 87 --plot out/hpo.svg

It searches with 1, 2, 4 and 8 trials, and prints how many parts the worker computed and delivered for each search. With
`--storage` and `--workers` the service runs already, and `data` is the name of a dataset; `--metrics` says where its workers
count. With `--one` this process is one trial of the study in `--study`, as a task of slurm/array-hpo.sbatch is.
"""

import multiprocessing
import os
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from search import Counts, of_search, parser, service, train_trial

# The start of every search: the settings of train_supervised.py.
KNOWN = {"learning_rate": 3e-3, "weight_decay": 0.05, "width": 32}


def parse():
    parsed = parser(__doc__)
    parsed.add_argument("--study", default="out/hpo.journal", help="file of the studies, on a file system that all trials see")
    parsed.add_argument("--metrics", help="with --storage: addresses of the workers' /metrics, host:port,..")
    parsed.add_argument("--one", action="store_true", help="one trial of the study `array`, with the running service")
    return parsed.parse_args()


def open_study(options, name, number=0):
    """A study in the file, for the process with this number. Each number's sampler draws different settings."""
    storage = optuna.storages.JournalStorage(JournalFileBackend(options.study))
    return optuna.create_study(
        study_name=name,
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=options.seed + number),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=1),
    )


def objective(options, trial):
    """Accuracy after the last epoch."""
    chosen = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-6, 1e-1, log=True),
        "weight_decay": trial.suggest_float("weight_decay", 1e-4, 1e-1, log=True),
        "width": trial.suggest_int("width", 16, 48, step=16),
    }

    def report(epoch, right):
        trial.report(right, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned

    return train_trial(options, chosen, report)


def run_trials(options, name, number, count):
    """Trials in this process, one after the other."""
    study = open_study(options, name, number)
    study.optimize(lambda trial: objective(options, trial), n_trials=count)


def search(options, trials):
    """Runs a study with `trials` trials, some at a time. Returns how many were stopped, and the best accuracy."""
    name, options = f"{trials} trials", of_search(options, trials)
    study = open_study(options, name)
    study.enqueue_trial(KNOWN)
    at_once = min(trials, options.at_once)
    spawn = multiprocessing.get_context("spawn")
    shares = [trials // at_once + (number < trials % at_once) for number in range(at_once)]
    running = [
        spawn.Process(target=run_trials, args=(options, name, number, share)) for number, share in enumerate(shares)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
        if process.exitcode != 0:
            raise SystemExit("a trial has failed; it says why above")
    states = [trial.state for trial in study.get_trials()]
    return states.count(TrialState.PRUNED), study.best_value


def run(options, metrics):
    """A search with each number of trials."""
    counts = Counts(metrics) if metrics else None
    for trials in map(int, options.trials.split(",")):
        stopped, best = search(options, trials)
        if counts:
            counts.add(trials, stopped, best)
        else:
            print(f"trials {trials:2}  stopped early {stopped:2}  best accuracy {best:.3f}", flush=True)
    if counts and options.plot:
        counts.plot(options.plot)


def main():
    options = parse()
    Path(options.study).parent.mkdir(parents=True, exist_ok=True)
    if options.one:
        run_trials(options, "array", int(os.environ.get("HW_TRIAL") or 0), 1)
        return
    # A study continues where its file ends.
    Path(options.study).unlink(missing_ok=True)
    if options.storage:
        run(options, options.metrics.split(",") if options.metrics else [])
        return
    with service(options) as metrics:
        run(options, [metrics])


if __name__ == "__main__":
    main()
