"""A real Prometheus finds the processes of a real run, has data for every panel, and its alerts fire in
staged stalls and clear after them.

Its rules are the chart's, with times sixty times as short: minutes become seconds.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "helm" / "headwater" / "files"
SHARDS = ROOT / "tests" / "data" / "photos" / "photos-*.tar"
LIMIT_S = 240
RATE_INTERVAL = "10s"


def program() -> str:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("HEADWATER_BIN", target / "debug" / "headwater"))
    assert path.exists(), f"{path} is missing: cargo build"
    return str(path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Run:
    """Processes that end with the test, and the Prometheus that looks at them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.targets = folder / "targets"
        self.processes = {}
        self.storage, self.worker = (f"127.0.0.1:{free_port()}" for _ in range(2))

    def start(self, name: str, *command: str):
        log = (self.folder / f"{name}.log").open("a")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        self.processes[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            env=environment,
        )  # fmt: skip

    def headwater(self, name: str, *arguments: str):
        self.start(
            name, program(), "--die-with", str(os.getpid()), *arguments,
            "--set", "telemetry.metrics_listen=127.0.0.1:0",
            "--set", f"telemetry.targets_dir={self.targets}",
        )  # fmt: skip

    def start_storage(self):
        self.headwater(
            "storage", "storage", "--listen", self.storage, "--index-dir", str(self.folder / "index"),
            "--dataset", f"photos={SHARDS}",
        )  # fmt: skip

    def start_worker(self):
        self.headwater(
            "augment", "augment", "--listen", self.worker, "--storage", self.storage,
            "--threads", "1", "--set", "augment.local_files=off",
        )  # fmt: skip

    def start_rank(self, recipe: str, step_ms: int):
        self.headwater(
            "receive", "receive", "--dataset", "photos", "--storage", self.storage,
            "--workers", self.worker, "--set", f"recipe.preset={recipe}", "--batch", "8", "--epochs", "0",
            "--step-ms", str(step_ms), "--set", "receiver.worker_wait_ms=600000",
        )  # fmt: skip

    def kill(self, name: str):
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def end(self):
        for name in list(self.processes):
            self.kill(name)

    def start_prometheus(self):
        rules = self.folder / "alerts.yaml"
        rules.write_text(sped_up((FILES / "alerts.yaml").read_text()))
        # What the monitors of the chart add in a cluster.
        labels = [
            {"target_label": "namespace", "replacement": "test"},
            {"source_labels": ["tier"], "target_label": "pod"},
        ]
        files = [f"{self.targets}/*.json"]
        job = {
            "job_name": "headwater",
            "file_sd_configs": [{"files": files, "refresh_interval": "1s"}],
            "relabel_configs": labels,
        }
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [job],
        }
        path = self.folder / "prometheus.yaml"
        path.write_text(yaml.safe_dump(config))
        self.address = f"127.0.0.1:{free_port()}"
        self.start(
            "prometheus", "prometheus", f"--config.file={path}",
            f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address={self.address}",
        )  # fmt: skip

    def ask(self, path: str, **query: str):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list:
        return self.ask("query", query=expression)["result"]

    def firing(self) -> set:
        alerts = self.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait(self, what: str, until):
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                if found := until():
                    return found
            except OSError:
                pass
            assert time.monotonic() < end, f"{what}: {self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(log.read_text()[-2000:] for log in sorted(self.folder.glob("*.log")))


def sped_up(rules: str) -> str:
    """The rules with seconds in place of minutes, and minutes in place of hours."""
    shorter = {"m": "s", "h": "m"}
    return re.sub(r"\b(\d+)([mh])\b", lambda time: time[1] + shorter[time[2]], rules)


@pytest.fixture
def run(tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("SKIP: prometheus is missing (package prometheus)")
    run = Run(tmp_path)
    try:
        yield run
    finally:
        run.end()


def test_times_of_rules_are_shortened_alike():
    assert sped_up("rate(a[5m]) > 0.05\nfor: 10m\nincrease(b[1h])") == (
        "rate(a[5s]) > 0.05\nfor: 10s\nincrease(b[1m])"
    )


def test_a_real_prometheus_has_data_for_every_panel_and_fires_in_staged_stalls(run):
    run.start_prometheus()
    run.start_storage()
    run.start_worker()
    # One thread, and a trainer that takes no time: workers are short.
    run.start_rank("dinov2", 0)
    tiers = {"storage", "augment", "receiver"}
    run.wait("targets", lambda: {e["metric"]["tier"] for e in run.query("up == 1")} >= tiers)
    run.wait("batches", lambda: run.query("headwater_receiver_batches_total > 4"))

    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("$namespace", "test")
            query = query.replace("$__rate_interval", RATE_INTERVAL)
            run.wait(f"{panel['title']}: {query}", lambda query=query: run.query(query))
    namespaces = {entry["metric"]["namespace"] for entry in run.query("headwater_build_info")}
    assert namespaces == {"test"}, "the dashboard's variable"

    run.wait(
        "workers are short", lambda: run.firing() >= {"HeadwaterWorkersShort", "HeadwaterRanksWait"}
    )
    assert "HeadwaterNoWorkers" not in run.firing()

    # Other work on this machine may make any stage slow as well; the workers are what is waited for most.
    def waited(causes: str) -> float:
        rate = f'sum(rate(headwater_receiver_waited_by_cause_seconds{{cause=~"{causes}"}}[{RATE_INTERVAL}]))'
        return sum(float(entry["value"][1]) for entry in run.query(rate))

    run.wait(
        "most of the wait is for workers",
        lambda: waited("queue|decode|augment") > max(waited("read|fetch"), waited("deliver")),
    )

    # The same worker is enough for a trainer that takes its time.
    run.kill("receive")
    run.start_rank("raw", 2000)
    waits = {"HeadwaterWorkersShort", "HeadwaterRanksWait"}
    run.wait("the stall is over", lambda: not run.firing() & waits)

    run.kill("augment")
    run.wait("no worker", lambda: "HeadwaterNoWorkers" in run.firing())
    run.start_worker()
    run.wait("a worker again", lambda: "HeadwaterNoWorkers" not in run.firing())

    # A rank that finds no storage node is not ready, and one that has never met a worker has none.
    run.kill("receive")
    run.kill("augment")
    run.start_rank("raw", 2000)
    run.wait("never met a worker", lambda: "HeadwaterNoWorkers" in run.firing())
    run.kill("receive")
    run.kill("storage")
    run.start_rank("raw", 2000)
    run.wait("never ready", lambda: "HeadwaterNotReady" in run.firing())
