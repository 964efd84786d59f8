"""The chart as helm renders it, and the program that reads what comes out."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "headwater"
HELM = Path(sys.executable).with_name("helm")
CASES = sorted(path.name.removesuffix("-values.yaml") for path in CHART.glob("ci/*-values.yaml"))

# Schemas are known from 1.25 on; the chart renders for 1.20 too.
OLDEST, NEWEST = "1.25", "1.37"
VERSIONS = ["1.20.2", f"{OLDEST}.0", f"{NEWEST}.0"]

# What operators add to a cluster; the versions of the core APIs follow from its version.
OPERATORS = ["monitoring.coreos.com/v1", "keda.sh/v1alpha1", "cert-manager.io/v1"]


def helm(*args: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([HELM, *args], capture_output=True, text=True)


@functools.cache
def render(case: str | None, version: str = "1.37.0", *more: str) -> list[dict]:
    """Objects of the chart with the values of a case, for a cluster of a version. Not to be changed."""
    apis = [flag for api in OPERATORS for flag in ("--api-versions", api)]
    values = ["--values", CHART / "ci" / f"{case}-values.yaml"] if case else []
    flags = ["--namespace", "ml", "--kube-version", version, *apis, *values, *more]
    done = helm("template", "run", CHART, *flags)
    assert done.returncode == 0, done.stderr
    return [entry for entry in yaml.safe_load_all(done.stdout) if entry]


def validate(entry: dict, version: str) -> None:
    """Compares an object with the schema of a cluster's version; of operators' objects there is none."""
    if entry["apiVersion"] not in OPERATORS:
        kubernetes_validate.validate(entry, version, strict=True)


def refusal(*flags: str, case: str | None = "defaults") -> str:
    """What helm says to values that are refused."""
    values = ["--values", CHART / "ci" / f"{case}-values.yaml"] if case else []
    done = helm("template", "run", CHART, *values, *flags)
    assert done.returncode != 0, "helm took it"
    return done.stderr


def of_kind(objects: list[dict], kind: str, ending: str = "") -> list[dict]:
    found = [entry for entry in objects if entry["kind"] == kind]
    return [entry for entry in found if entry["metadata"]["name"].endswith(ending)]


def pods(objects: list[dict]) -> list[dict]:
    """Every pod template."""
    return [entry["spec"]["template"] for entry in objects if "template" in entry.get("spec", {})]


@pytest.fixture(scope="session")
def program() -> Path:
    """The binary that cargo has built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("HEADWATER_BIN", target / "debug" / "headwater"))
    assert path.exists(), f"{path} is missing: cargo build"
    return path.resolve()
