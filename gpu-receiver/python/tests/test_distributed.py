"""headwater.distributed: ranks, topology and the canary, on two real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from headwater import ConfigError, HeadwaterError
from headwater.distributed import launch, slurm_init, topology
from ranks import LIMIT_S

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = Path(__file__).with_name("distributed_ranks.py")
NVL72 = {"NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "1", "NCCL_PROTO": "LL128"}
UUID = "4f672052-5b4e-4d6a-9c1e-2b8f0e6d4a91"
NO_UUID = "00000000-0000-0000-0000-000000000000"

# The part of `nvidia-smi -q` that is about the fabric, and what stands around it.
SMI = """
==============NVSMI LOG==============

Driver Version                            : 580.65.06
Attached GPUs                             : 4
GPU 00000008:01:00.0
    Product Name                          : NVIDIA GB200
    Voltage
        Graphics                          : N/A
    Fabric
        State                             : {state}
        Status                            : {status}
        CliqueId                          : {clique}
        ClusterUUID                       : {uuid}
        Health
            Bandwidth                     : Full
    Processes                             : None
"""


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Stands in for `nvidia-smi`; ranks may each have an answer of their own."""

    def smi(*answers):
        for rank, answer in enumerate(answers):
            said = {"state": "Completed", "status": "Success", "clique": 1, "uuid": UUID, **answer}
            (tmp_path / f"answer-{rank}").write_text(SMI.format(**said))
        program = tmp_path / "nvidia-smi"
        program.write_text(f'#!/bin/sh\n[ "$*" = "-q -i 0" ] && cat {tmp_path}/answer-${{RANK:-0}}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return smi


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({}, ("none", 0, 0, 1, "127.0.0.1", 10000)),
        (
            {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "MASTER_ADDR": "a", "MASTER_PORT": "5"},
            ("torchrun", 9, 1, 16, "a", 5),
        ),
        (
            {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7",
             "SLURM_STEP_ID": "2", "SLURM_STEP_NODELIST": "gpu[07-12,15],cpu1"},
            ("slurm", 3, 1, 4, "gpu07", 10219),
        ),
        # torchrun under srun: its ranks are the ones.
        (
            {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "n1,n2",
             "SLURM_STEP_ID": "0", "RANK": "5", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "MASTER_PORT": "29500"},
            ("torchrun", 5, 2, 8, "n1", 29500),
        ),
        # Empty variables are not set.
        (
            {"RANK": "", "LOCAL_RANK": "", "WORLD_SIZE": " ", "MASTER_ADDR": " ", "MASTER_PORT": "", "SLURM_PROCID": "1",
             "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0",
             "SLURM_JOB_NODELIST": "n1,n2"},
            ("slurm", 1, 0, 2, "n1", 10217),
        ),
        # A batch script is in the allocation, and no rank.
        (
            {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "n1,n2"},
            ("none", 0, 0, 1, "n1", 10000),
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
             "MASTER_ADDR": "a", "MASTER_PORT": "5"},
            ("mpi", 3, 1, 4, "a", 5),
        ),
    ],
)
def test_a_rank_is_what_its_launcher_says(variables, expected):
    assert launch.launched(variables) == expected


@pytest.mark.parametrize(
    "variables, problem",
    [
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 must be below WORLD_SIZE=2"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=`one` is not a number"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "LOCAL_RANK is not set"),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "MASTER_ADDR is not set"),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}, "MASTER_PORT is not set"),
    ],
)
def test_variables_that_do_not_do_are_named(variables, problem):
    with pytest.raises(ConfigError, match=problem):
        launch.launched(variables)


def test_other_libraries_get_what_was_empty():
    env = {"RANK": "", "WORLD_SIZE": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "MASTER_ADDR": "a",
           "SLURM_STEP_ID": "0"}
    launch.export(launch.launched({**env, "MASTER_PORT": "5"}), env)
    assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"], env["MASTER_ADDR"]) == ("1", "2", "0", "a")


@pytest.mark.parametrize(
    "nodes, first",
    [("n1", "n1"), ("a,b", "a"), ("gpu[07-12,15],c", "gpu07"), ("r[0-1]n[3,5]-x,z", "r0n3-x"), ("n[2]", "n2")],
)
def test_the_first_host_of_a_node_list(nodes, first):
    assert launch.first_host(nodes) == first


@pytest.mark.parametrize(
    "answer, fabric",
    [
        ({}, f"{UUID}.1"),
        ({"clique": 7}, f"{UUID}.7"),
        # A single node with NVSwitches.
        ({"uuid": NO_UUID}, ""),
        ({"state": "In Progress", "status": "N/A"}, ""),
        ({"state": "N/A", "status": "N/A", "clique": "N/A", "uuid": "N/A"}, ""),
    ],
)
def test_a_fabric_of_several_nodes_has_a_uuid(smi, answer, fabric):
    smi(answer)
    assert topology.fabric() == fabric


def test_variables_of_a_topology_never_replace_what_the_user_set(monkeypatch):
    for name in NVL72:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    topology.set_variables("nvl72")
    assert {name: os.environ.get(name) for name in NVL72} == {**NVL72, "NCCL_PROTO": "Simple"}
    # Of another topology: what was set here is withdrawn.
    topology.set_variables("pcie")
    assert {name: os.environ.get(name) for name in NVL72} == {
        "NCCL_IB_DISABLE": None, "NCCL_NVLS_ENABLE": None, "NCCL_PROTO": "Simple",
    }


@pytest.mark.parametrize(
    "other, world_size, expected",
    [(f"{UUID}.1", 2, "nvl72"), (f"{UUID}.2", 2, "pcie"), ("", 2, "pcie"), (f"{UUID}.1", 73, "pcie")],
)
def test_a_topology_is_nvl72_where_all_ranks_are_in_one_domain(smi, other, world_size, expected):
    smi({})
    store = torch.distributed.HashStore()
    store.set("fabric/1", other)
    assert topology.agreed(store, 0, world_size) == expected


def test_two_ranks_of_torchrun_meet_agree_on_the_topology_and_verify_their_link(smi, tmp_path, monkeypatch):
    smi({}, {})
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    # gloo connects by the address of this host's name, which need not be one of its own.
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*torchrun, str(SCRIPT), str(tmp_path)], check=True, timeout=LIMIT_S)
    outputs = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    for rank, said in enumerate(outputs):
        assert (said["launcher"], said["rank"], said["local_rank"], said["world_size"]) == ("torchrun", rank, rank, 2)
        assert (said["backend"], said["device"], said["topology"]) == ("gloo", "cpu", "nvl72")
        assert said["exported"] == [str(rank), str(rank), "2", str(said["master_port"])]
        assert said["nccl"] == {**NVL72, "NCCL_PROTO": "Simple"}
    check_verdicts(*(said["verdicts"] for said in outputs))


def check_verdicts(first, second):
    """The same on both ranks; only rank 0 warns."""
    for one, other in zip(first, second):
        warned = one.pop("warned")
        assert other.pop("warned") == []
        assert one == other and one["bus_gb_s"] > 0 and one["nbytes"] == 1 << 16
        assert one["bus_gb_s"] == pytest.approx(one["nbytes"] / one["seconds"] / 1e9)
        assert bool(warned) == (one["verdict"] != "ok")
    assert [one["verdict"] for one in first] == ["ok", "degraded", "corrupt"]
    assert [one["corrupt_ranks"] for one in first] == [[], [], [1]]


def test_one_process_needs_no_launcher():
    code = (
        "from headwater.distributed import slurm_init, verify_interconnect; env = slurm_init('gloo');"
        "print(env.launcher, env.rank, env.world_size, verify_interconnect(64).verdict)"
    )
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert alone.stdout == "none 0 1 ok\n", alone.stderr


def test_importing_needs_neither_a_gpu_nor_pytorch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from headwater.dino import DatasetSpec, DINOAugConfig, DINODataLoader, LoaderConfig, slurm_init\n"
        "from headwater.distributed import verify_interconnect\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_S)


def test_ranks_that_do_not_come_are_waited_for_no_longer_than_asked(monkeypatch):
    # A port below those that Linux hands out by itself.
    port = launch.launched({"SLURM_JOB_ID": str(os.getpid())}).master_port
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(HeadwaterError) as lost:
        slurm_init(timeout_s=1)
    assert f"rank 0 of 2 did not meet the others at localhost:{port} within 1 s: start all" in str(lost.value)
