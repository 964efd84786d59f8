"""A small service on this machine, with a monitor that serves its page."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PHOTOS = PROJECT / "tests" / "data" / "photos" / "photos-{000000..000003}.tar"
START_LIMIT_S = 60
TOKEN = "a token of this service alone"


def program():
    """The program `headwater`: $HEADWATER_BIN, else the newest build."""
    if "HEADWATER_BIN" in os.environ:
        return os.environ["HEADWATER_BIN"]
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
    built = [path for profile in ("debug", "release") if (path := target / profile / "headwater").exists()]
    if not built:
        raise FileNotFoundError(f"no `headwater` in {target}: run `cargo build`, or set HEADWATER_BIN")
    return str(max(built, key=lambda path: path.stat().st_mtime))


class Service:
    """Storage, workers, a rank, a monitor. Use it with `with`; all processes end with it.

    workers: number of them, each with one thread.
    step_ms: time that the rank holds each batch.
    settings: further keys of the configuration, of all processes.
    """

    def __init__(self, workers=1, step_ms=20, **settings):
        self.workers, self.step_ms = workers, step_ms
        self.settings = {
            "telemetry.metrics_listen": "127.0.0.1:0", "telemetry.show_batches": "true", "receiver.job": "photos", **settings,
        }
        self.processes, self.metrics = [], []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="headwater-service-", ignore_cleanup_errors=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()

    def _start(self):
        self.settings["telemetry.targets_dir"] = f"{self.folder.name}/targets"
        shards = ["--dataset", f"photos={PHOTOS}"]
        _, storage = self.run("storage", "listening on ", "--listen", "127.0.0.1:0", "--index-dir", "index", *shards)
        workers = []
        for _ in range(self.workers):
            _, address = self.run(
                "augment", "listening on ", "--listen", "127.0.0.1:0", "--threads", "1", "--storage", storage)
            workers.append(address)
        self.rank, _ = self.run(
            "receive", "metrics on ", "--storage", storage, "--workers", ",".join(workers), "--dataset", "photos",
            "--batch", "32", "--epochs", "0", "--step-ms", str(self.step_ms))
        self.monitor, self.url = self.run("monitor", "page on ", *self.metrics, "--web", ":0")

    def run(self, verb, word, *arguments):
        """Starts the program; the process, and what it says after `word`."""
        log = Path(self.folder.name) / f"{verb}-{len(self.processes)}.log"
        settings = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        with log.open("w") as out:
            command = [program(), "--die-with", str(os.getpid()), verb, *arguments, *settings]
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder.name)
        self.processes.append(process)
        end = time.monotonic() + START_LIMIT_S
        while word not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{verb} does not say `{word}`:\n{log.read_text()}")
            time.sleep(0.02)
        said = log.read_text()
        if verb != "monitor":
            self.metrics.append(said.split("metrics on ", 1)[1].split()[0])
        return process, said.split(word, 1)[1].split()[0]
