"""The files of docs/deploy: systemd takes the units, and their command lines, with what docs/systemd.md and docs/security.md
say beside them, make a service that gives batches."""

import contextlib
import json
import re
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from documents import ROOT, blocks

DEPLOY = ROOT / "docs" / "deploy"
PHOTOS = ROOT / "tests" / "data" / "photos"
INSTALLED = "/usr/local/bin/headwater"
LIMIT_S = 300
#: What the units may have. systemd itself only warns of a name that it does not know.
KNOWN = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec", "StartLimitBurst"},
    "Service": {
        *("Type", "User", "Group", "Environment", "EnvironmentFile", "CacheDirectory", "ExecStartPre", "ExecStart"),
        *("Restart", "RestartSec", "KillSignal", "TimeoutStopSec", "LimitNOFILE", "LimitMEMLOCK", "NoNewPrivileges"),
        *("ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups"),
        *("RestrictSUIDSGID", "LockPersonality"),
    },
    "Install": {"WantedBy"},
}
UNITS = sorted(DEPLOY.glob("*.service"))


def unit(path: Path) -> dict[str, dict[str, str]]:
    """Sections of a unit. A name that stands twice, or that is not known, is an error."""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            values = found.setdefault(section[1], {})
        elif line and not line.startswith("#"):
            name, sign, value = line.partition("=")
            assert sign and name in KNOWN[section_of(found)], f"{path.name}: {line}"
            assert name not in values, f"{path.name} has {name} twice"
            values[name] = value
    return found


def section_of(found: dict) -> str:
    return list(found)[-1]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as kept:
        listeners = [kept.enter_context(socket.socket()) for _ in range(count)]
        for one in listeners:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in listeners]


class Running:
    """Processes of the program, which end with the test."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder, self.running = program, folder, []

    def start(self, words: list[str], environment: dict[str, str]) -> subprocess.Popen:
        log = self.folder / f"{words[0]}-{len(self.running)}.log"
        with log.open("w") as into:
            self.running.append(subprocess.Popen([self.program, *words], env=environment, stdout=into, stderr=into))
        return self.running[-1]

    def logs(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))

    def stop(self) -> list[int]:
        """Exit statuses after TERM, as a service manager sends it."""
        for one in self.running:
            one.terminate()
        return [one.wait(LIMIT_S) for one in self.running]


@pytest.fixture
def running(program, tmp_path):
    made = Running(program, tmp_path)
    yield made
    for one in made.running:
        one.kill()
        one.wait()


def batches(digests: Path) -> list[dict]:
    return [json.loads(line) for line in digests.read_text().splitlines()]


# === systemd ===


def test_there_is_a_unit_for_each_service():
    assert [path.name for path in UNITS] == ["headwater-augment.service", "headwater-storage.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_a_unit(path, program, tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("SKIP: systemd-analyze is missing (package systemd): only the names of the unit are checked")
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace(INSTALLED, str(program)))
    done = subprocess.run([analyze, "verify", "--man=no", copy], capture_output=True, text=True, timeout=LIMIT_S)
    # What other units of this machine have is not ours.
    said = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
    assert not said and done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_gives_a_service_the_time_that_it_needs_to_drain(path):
    service = unit(path)["Service"]
    tier = shlex.split(service["ExecStart"])[1]
    reference = (ROOT / "docs" / "configuration.md").read_text()
    section = reference.split(f"## `[{tier}]`")[1].split("\n## ")[0]
    drain_ms = int(re.search(r"\*\*`drain_timeout_ms`\*\* \(default `(\d+)`", section)[1])
    assert int(service["TimeoutStopSec"]) * 1000 > drain_ms
    assert service["KillSignal"] == "SIGTERM" and service["Restart"] == "on-failure"
    assert service["ExecStartPre"] == service["ExecStart"] + " --check-config"


def certificates(folder: Path):
    """Runs the block of docs/security.md that makes the token and the certificates."""
    (block,) = (one for one in blocks("docs/security.md") if "openssl req -x509" in one.code)
    subprocess.run(["bash", "-euc", block.code], cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    assert (folder / "token").stat().st_mode & 0o777 == 0o600


def installed(text: str, folder: Path, ports: dict[str, int]) -> str:
    """A text of docs/systemd.md or of a unit, for this machine."""
    for name, port in ports.items():
        text = text.replace(name, f"127.0.0.1:{port}")
    places = {"/etc/headwater": folder, "/var/cache/headwater": folder / "cache", "/data/photos": PHOTOS}
    for path, here in places.items():
        text = text.replace(path, str(here))
    return text


def start_unit(running: Running, path: Path, environment: dict[str, str], ports: dict[str, int]):
    service = unit(path)["Service"]
    settings = dict(one.split("=", 1) for one in shlex.split(installed(service["Environment"], running.folder, ports)))
    environment = {**environment, **settings}
    for line in ("ExecStartPre", "ExecStart"):
        program, *words = shlex.split(installed(service[line], running.folder, ports))
        assert program == INSTALLED
        if line == "ExecStart":
            return running.start(words, environment)
        done = subprocess.run([running.program, *words], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr


def receive(running: Running, environment: dict[str, str], ports: dict[str, int], *more: str) -> subprocess.CompletedProcess:
    """The last command of docs/systemd.md's chapter."""
    (block,) = (one for one in blocks("docs/systemd.md") if " receive " in one.code)
    program, *words = shlex.split(installed(block.code, running.folder, ports))
    assert program == "headwater"
    return subprocess.run([running.program, *words, *more], env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def test_the_units_with_the_token_and_certificates_of_the_docs_give_batches(running, environment, tmp_path):
    certificates(tmp_path)
    ports = dict(zip(("0.0.0.0:7401", "0.0.0.0:7402"), free_ports(2)))
    ports |= {"storage1:7401": ports["0.0.0.0:7401"], "worker1:7402": ports["0.0.0.0:7402"]}
    (configuration,) = (one.code for one in blocks("docs/systemd.md") if one.language == "toml")
    (tmp_path / "headwater.toml").write_text(installed(configuration, tmp_path, ports))
    for path in UNITS:
        start_unit(running, path, environment, ports)
    digests = tmp_path / "digests.jsonl"
    done = receive(running, environment, ports, "--digests", str(digests))
    assert done.returncode == 0, done.stderr + running.logs()
    assert [len(set(one["keys"])) for one in batches(digests)] == [8] * 4

    # No file mode is required, as docs/security.md says.
    readable = tmp_path / "readable"
    readable.write_text((tmp_path / "token").read_text())
    readable.chmod(0o644)
    done = receive(running, environment, ports, "--set", f"security.token_file={readable}")
    assert done.returncode == 0, done.stderr + running.logs()

    other = tmp_path / "other"
    other.write_text("another token of another job\n")
    refused = receive(
        running, environment, ports, "--set", f"security.token_file={other}", "--set", "receiver.worker_wait_ms=2000"
    )
    assert refused.returncode != 0 and "the caller's token is not this job's" in refused.stderr, refused.stderr
    assert running.stop() == [0, 0], running.logs()


# === Compose ===


def compose() -> dict[str, dict]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def test_compose_builds_what_the_containerfile_has():
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Containerfile").read_text(), re.MULTILINE))
    for name, service in compose().items():
        build = service["build"]
        assert (DEPLOY / build["context"]).resolve() == ROOT and build["target"] in targets, name
        # Docker looks for a `Dockerfile` and a `.dockerignore`.
        assert (ROOT / build["dockerfile"]).name == "Containerfile" and (ROOT / ".dockerignore").is_file()
        assert service["image"] == f"headwater-{build['target']}:0.2.0"
        assert set(service.get("depends_on", [])) <= set(compose())


def test_the_services_of_compose_give_a_batch(running, environment, tmp_path):
    services = compose()
    assert list(services) == ["storage", "augment", "rank"]
    storage, augment = free_ports(2)
    places = {
        "0.0.0.0:7401": f"127.0.0.1:{storage}",
        "0.0.0.0:7402": f"127.0.0.1:{augment}",
        "storage:7401": f"127.0.0.1:{storage}",
        "augment:7402": f"127.0.0.1:{augment}",
        "/data/": f"{PHOTOS}/",
        "/index": str(tmp_path / "index"),
        "rank": "127.0.0.1",
    }
    digests = tmp_path / "digests.jsonl"
    for name, service in services.items():
        # Compose puts a variable in the place of `$`; the command lines have none.
        assert not any("$" in word for word in service["command"])
        words = [moved(word, places) for word in service["command"]]
        own = {key: moved(value, places) for key, value in service.get("environment", {}).items()}
        if name == "rank":
            words += ["--links", "tcp", "--digests", str(digests)]
        process = running.start(words, {**environment, **own})
    assert process.wait(LIMIT_S) == 0, running.logs()
    asked = services["rank"]["command"]
    samples, steps = (int(asked[asked.index(flag) + 1]) for flag in ("--batch", "--batches"))
    assert [len(set(one["keys"])) for one in batches(digests)] == [samples] * steps


def moved(word: str, places: dict[str, str]) -> str:
    """A word of a container's command line, for this machine."""
    for place, here in places.items():
        if place in word:
            return word.replace(place, here)
    return word
