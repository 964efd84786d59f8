"""Every combination that the chart's README lists, and every example, on old and new clusters."""

import functools
import json

import pytest
import yaml

from conftest import CASES, CHART, NEWEST, OLDEST, VERSIONS, of_kind, pods, render, validate
from pod_security import level


def rows() -> dict[str, tuple[str, str]]:
    """Values and Pod Security level by what they are for, from the table of the README."""
    text = (CHART / "README.md").read_text().partition("| what | values | level |")[2].partition("\n\n")[0]
    cells = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in text.strip().splitlines()[1:]]
    return {what: (values, wanted) for what, values, wanted in cells}


ROWS = rows()


def objects_of(what: str, version: str) -> list[dict]:
    return with_values(ROWS[what][0], version)


def with_values(values: str, version: str) -> list[dict]:
    base = "config.dataset[0].name=photos,config.dataset[0].shards=/data/*.tar"
    volume = "" if "data.volume" in values else ",data.volume.persistentVolumeClaim.claimName=shards"
    return render(None, version, "--set", f"{base}{volume},{values}".strip(","))


@pytest.mark.parametrize("what", ROWS)
def test_a_documented_combination_is_admitted_at_its_level(what):
    for version in VERSIONS:
        levels = {level(pod) for pod in pods(objects_of(what, version))}
        assert max(levels, key=["restricted", "baseline", "privileged"].index) == ROWS[what][1], version


@pytest.mark.parametrize("what", ROWS)
def test_a_documented_combination_fits_the_schemas(what):
    for version in (OLDEST, NEWEST):
        for entry in objects_of(what, f"{version}.0"):
            validate(entry, version)


@pytest.mark.parametrize("what", ROWS)
def test_a_documented_combination_changes_what_is_installed(what):
    assert objects_of(what, f"{NEWEST}.0") != with_values("", f"{NEWEST}.0")


@pytest.mark.parametrize("case", CASES)
def test_examples_need_no_privileges_but_for_folders_of_the_node(case):
    for pod in pods(render(case)):
        folders = [volume for volume in pod["spec"]["volumes"] if "hostPath" in volume]
        storage = [volume for volume in pod["spec"]["volumes"] if "nfs" in volume]
        assert level(pod) == ("privileged" if folders else "baseline" if storage else "restricted")


@functools.cache
def switches() -> set[str]:
    """Values that turn something on, by their paths: off by default, or one of several ways."""
    found = set()

    def walk(path: str, values: dict, schema: dict) -> None:
        for key, value in values.items():
            one = schema["properties"].get(key, {})
            here = f"{path}{key}"
            if isinstance(value, dict) and "properties" in one:
                walk(f"{here}.", value, one)
            elif value is False and key in ("enabled", "hostNetwork", "restrictEgress", "create") or "enum" in one:
                found.add(here)

    schema = json.loads((CHART / "values.schema.json").read_text())
    walk("", yaml.safe_load((CHART / "values.yaml").read_text()), schema)
    return found


def test_every_switch_is_in_a_documented_combination():
    assert len(switches()) > 20
    used = {pair.partition("=")[0] for values, _ in ROWS.values() for pair in values.split(",")}
    # They say how, and not what is installed.
    how = {"image.pullPolicy", "topologySpread.whenUnsatisfiable", "rdma.hugepages.size", "publish.serviceType"}
    # Of storage nodes and of publishers: as for workers and ranks.
    how |= {"storage.hostNetwork", "publish.hostNetwork"}
    assert switches() - used == how


def test_the_level_of_a_pod_is_found_by_what_it_asks_for():
    (pod,) = [one for one in pods(with_values("", "1.37.0")) if one["spec"]["containers"][0]["name"] == "storage"]

    def with_(**changes: object) -> str:
        changed = json.loads(json.dumps(pod))
        spec = changed["spec"]
        context = spec["containers"][0]["securityContext"]
        for key, value in changes.items():
            (context if key in context else spec)[key] = value
        return level(changed)

    assert with_() == "restricted"
    assert with_(allowPrivilegeEscalation=True) == "baseline"
    assert with_(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]}) == "privileged"
    assert with_(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}) == "baseline"
    assert with_(capabilities={}) == "baseline"
    assert with_(volumes=[{"name": "a", "hostPath": {"path": "/"}}]) == "privileged"
    assert with_(volumes=[{"name": "a", "nfs": {"server": "a", "path": "/"}}]) == "baseline"
    assert with_(securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "Unconfined"}}) == "privileged"
    assert with_(securityContext={"runAsNonRoot": True}) == "baseline"
    assert with_(hostNetwork=True) == "privileged"


def test_sidecars_end_with_their_rank_on_old_and_new_clusters():
    what = "the same, with no other workers"
    (job,) = of_kind(objects_of(what, "1.29.0"), "Job")
    (worker,) = job["spec"]["template"]["spec"]["initContainers"]
    assert worker["restartPolicy"] == "Always" and worker["livenessProbe"]["httpGet"]["port"] == "worker-metrics"
    for old in of_kind(objects_of(what, "1.28.0"), "Job"):
        trainer, worker = old["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in trainer["ports"]}
        # It may be asked for before the rank is there, and not be ended for that.
        for kind in ("startupProbe", "livenessProbe"):
            assert worker[kind]["httpGet"] == {"path": "/healthz", "port": ports["metrics"]}
        assert worker["startupProbe"]["failureThreshold"] >= trainer["startupProbe"]["failureThreshold"]
        assert "restartPolicy" not in worker
