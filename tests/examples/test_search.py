"""Searches for hyper-parameters: trials on one service, bad ones stopped early, parts counted."""

import json
import re
import subprocess
import sys

import pytest

from conftest import EXAMPLES, LIMIT_S, PHOTOS, environment, program

pytest.importorskip("torch", reason="PyTorch is not installed")

DATA = [str(PHOTOS / "photos-00000[0-2].tar"), "--validation", str(PHOTOS / "photos-000003.tar")]
SHORT = ["--classes", "87", "--epochs", "3", "--size", "32"]
ROW = re.compile(
    r"trials +(\d+)  stopped early +(\d+)  best accuracy ([\d.]+)  parts computed +(\d+)  delivered +(\d+)"
)


def run(name, *arguments, cwd, **variables):
    """Runs an example without services of the tests: it starts its own, or variables lead to some."""
    env = {**environment(), "HEADWATER_PROGRAM": program(), **variables}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def rows(out):
    """Trials, those stopped early, parts computed and delivered, of each search."""
    found = [(int(row[1]), int(row[2]), int(row[4]), int(row[5])) for row in ROW.finditer(out)]
    assert found, out
    return found


def shares_parts():
    keys = subprocess.run([program(), "config"], capture_output=True, text=True, env=environment()).stdout
    return "share_bytes" in keys


@pytest.mark.parametrize("share_bytes", [0, 1 << 30])
def test_bad_trials_are_stopped_and_equal_parts_are_computed_once(share_bytes, tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed")
    if share_bytes and not shares_parts():
        pytest.skip("this worker shares no parts")
    options = ["--trials", "1,4", "--at-once", "1", "--share-bytes", str(share_bytes)]
    (one, _, computed, delivered), (four, stopped, *parts) = rows(run("hpo_optuna.py", *DATA, *SHORT, *options, cwd=tmp_path))
    assert (one, four) == (1, 4) and 1 <= stopped <= 3
    # Four trials, of which some ended early.
    assert parts[1] > 1.5 * delivered
    if share_bytes:
        # What is made ahead when a trial ends differs by a window.
        assert parts[0] < 1.2 * computed
    else:
        assert (computed, parts[0]) == (delivered, parts[1])


def test_tasks_of_a_job_array_are_trials_of_one_study(services, tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed")
    found = {"HEADWATER_RECEIVER__STORAGE": services.storage, "HEADWATER_RECEIVER__WORKERS": services.worker}
    for trial in range(2):
        run("hpo_optuna.py", "train", "--validation", "validation", *SHORT, "--one", cwd=tmp_path, HW_TRIAL=str(trial), **found)
    lines = [json.loads(line) for line in (tmp_path / "out" / "hpo.journal").read_text().splitlines()]
    rates = [line["param_value_internal"] for line in lines if line.get("param_name") == "learning_rate"]
    assert len(set(rates)) == 2


def test_a_search_on_ray_has_its_service_there(tmp_path):
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed")
    pyplot = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert pyplot
    options = ["--trials", "2", "--share-bytes", "0", "--plot", "plot.svg"]
    # Ray has its processes give way to all others.
    out = run("hpo_ray.py", *DATA, *SHORT, *options, cwd=tmp_path, RAY_worker_niceness="0")
    ((trials, _, computed, delivered),) = rows(out)
    assert trials == 2 and computed == delivered > 0
    assert "<svg" in (tmp_path / "plot.svg").read_text()
