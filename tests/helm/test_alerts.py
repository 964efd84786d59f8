"""The alerts as Prometheus itself reads them: their syntax, and when each of them fires."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import CHART

ALERTS = CHART / "files" / "alerts.yaml"
CASES = Path(__file__).with_name("alerts_test.yaml")


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if not found:
        pytest.skip("SKIP: promtool is missing (package prometheus): the alerts are not tried")
    return found


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules(promtool):
    run(promtool, "check", "rules", ALERTS)


def test_each_alert_fires_on_what_it_is_about_and_not_beside_it(promtool, tmp_path):
    # Rules are looked for beside the cases.
    for source in (ALERTS, CASES):
        shutil.copy(source, tmp_path)
    run(promtool, "test", "rules", tmp_path / CASES.name)


def test_every_alert_has_a_case():
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    cases = yaml.safe_load(CASES.read_text())["tests"]
    firing = {
        one["alertname"] for case in cases for one in case["alert_rule_test"] if one["exp_alerts"]
    }
    assert firing == {rule["alert"] for rule in rules}
