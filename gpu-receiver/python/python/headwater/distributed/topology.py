"""How the GPUs of a job are connected, and the variables of NCCL that follow from it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any, Optional

from ..errors import ConfigError

# `nvl72`: all GPUs are in one NVLink domain of several nodes. `pcie`: anything else; NCCL chooses by itself.
VARIABLES: Mapping[str, Mapping[str, str]] = {
    "nvl72": {"NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "1", "NCCL_PROTO": "LL128"},
    "pcie": {},
}
_DOMAIN_GPUS_MAX = 72
_QUERY = ["nvidia-smi", "-q", "-i", "0"]
_QUERY_LIMIT_S = 60

# What this module has set itself, and may withdraw.
_set_here: dict[str, str] = {}


def checked(topology: Optional[str]) -> Optional[str]:
    """The name; raises `ConfigError` if it is unknown."""
    if topology is not None and topology not in VARIABLES:
        known = " or ".join(f'"{name}"' for name in VARIABLES)
        raise ConfigError(f"`force_topology` = {topology!r}: give {known}, or None to find out")
    return topology


def set_variables(topology: str) -> None:
    """Sets NCCL's variables for a topology. Those that the user has set keep their values.

    NCCL reads them when it makes its first communicator: with PyTorch, at the first collective.
    """
    for name, value in list(_set_here.items()):
        if os.environ.get(name) == value:
            del os.environ[name]
        del _set_here[name]
    for name, value in VARIABLES[topology].items():
        if name not in os.environ:
            os.environ[name] = _set_here[name] = value


def agreed(store: Any, rank: int, world_size: int) -> str:
    """The topology of all ranks, the same on each rank. Ranks exchange it through a `torch.distributed.Store`."""
    if world_size > _DOMAIN_GPUS_MAX:
        return "pcie"
    store.set(f"fabric/{rank}", fabric())
    fabrics = {store.get(f"fabric/{other}").decode() for other in range(world_size)}
    return "nvl72" if len(fabrics) == 1 and "" not in fabrics else "pcie"


def fabric() -> str:
    """The NVLink domain and partition of this node's GPUs; empty if NVLink does not extend beyond the node.

    By NCCL's rule for multi-node NVLink: the registration is complete, and the cluster's UUID is not zero.
    """
    try:
        asked = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_QUERY_LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    _, _, block = asked.stdout.partition("\n    Fabric\n")
    said = dict(re.findall(r"^\s+(State|Status|CliqueId|ClusterUUID)\s*: (\S+)", block, re.MULTILINE)[:4])
    complete = said.get("State") == "Completed" and said.get("Status") == "Success"
    uuid = said.get("ClusterUUID", "")
    return f"{uuid}.{said.get('CliqueId')}" if complete and uuid.strip("0-") else ""
