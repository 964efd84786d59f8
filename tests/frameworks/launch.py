"""Starts ranks.py by each launcher."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CLUSTER = HERE.parent / "slurm" / "cluster.sh"
LIMIT_S = 240
# What launchers set, which the tests' own launcher must not say.
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PREFIXES = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "HEADWATER_", "RANKS_OF_TEST")


def command(launcher: str, world_size: int) -> list[str]:
    """What starts a script as ranks."""
    if launcher == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    if launcher == "srun":
        # On one node, with more tasks than cores if need be.
        return [str(CLUSTER), "exec", "ctl", "srun", "-N1", f"-n{world_size}", "--overcommit", "--cpu-bind=none", sys.executable]
    if launcher == "mpirun":
        # As many ranks as are asked for, whatever the cores.
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(world_size), sys.executable]
    return [sys.executable]


def missing(launcher: str) -> str:
    """Why a launcher cannot be used here, if it cannot."""
    if launcher == "mpirun" and shutil.which("mpirun") is None:
        return "mpirun is missing: Debian's openmpi-bin has it"
    if launcher == "srun":
        if os.geteuid() != 0:
            return "a SLURM cluster needs root, for network namespaces"
        for program in ("slurmctld", "slurmd", "srun", "munged", "ip", "nsenter"):
            if shutil.which(program) is None:
                return f"{program} is missing: scripts/install-system.sh tests installs it"
    return ""


@contextlib.contextmanager
def cluster():
    """A SLURM cluster on this machine, as tests/slurm has it."""
    with tempfile.TemporaryDirectory(prefix="headwater-slurm-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        own = {"SLURM_ROOT": folder, "SLURM_TAG": f"hf{os.getpid()}", "SLURM_NET": f"10.78.{random.randrange(250)}"}
        os.environ.update(own)
        try:
            subprocess.run([CLUSTER, "start"], check=True, timeout=LIMIT_S)
            yield
        finally:
            subprocess.run([CLUSTER, "stop"], check=False, timeout=LIMIT_S)
            for name in own:
                del os.environ[name]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(launcher: str, loop: str, images: Path, out: Path, world_size: int) -> None:
    of_cluster = ("SLURM_ROOT", "SLURM_TAG", "SLURM_NET") if launcher == "srun" else ()
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in of_cluster or (name not in VARIABLES and not name.startswith(PREFIXES))
    }
    # gloo connects by the address of this host's name, which need not be one of its own.
    environment = {**kept, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    if launcher == "mpirun":
        # It sets neither.
        environment.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
    if "HEADWATER_BIN" in os.environ:
        environment["HEADWATER_PROGRAM"] = os.environ["HEADWATER_BIN"]
    script = [str(HERE / "ranks.py"), launcher, loop, str(images), str(out), str(world_size)]
    log = out / "log"
    with log.open("w") as said:
        started = subprocess.Popen(
            [*command(launcher, world_size), *script], env=environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        status = started.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{launcher}: not within {LIMIT_S} s:\n{log.read_text()}") from None
    finally:
        # With the ranks, which a launcher that is killed leaves behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert status == 0, log.read_text()
