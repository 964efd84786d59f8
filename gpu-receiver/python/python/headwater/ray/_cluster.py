"""Connects to the Ray cluster, and knows the names of services on it."""

from __future__ import annotations

import re
import time
from typing import Any

from ..errors import ConfigError

# Of all actors of this package, whatever namespace a driver has.
NAMESPACE = "headwater"
# Between a service's name and a member's.
_SEPARATOR = "/"
# Time for Ray to restart a directory, and between two tries to reach it.
_RESTART_S, _PAUSE_S = 120.0, 0.2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def library() -> Any:
    """The module `ray`.

    Raises `ConfigError` if it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(f"Ray cannot be imported ({error}): pip install ray") from error
    return ray


def connected() -> Any:
    """The module `ray`, connected to the cluster of this process.

    Raises `ConfigError` if there is no cluster.
    """
    ray = library()
    if not ray.is_initialized():
        try:
            ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False)
        except ConnectionError as error:
            raise ConfigError(
                "this process is not connected to a Ray cluster, and none runs here: call ray.init(..) first, "
                "or set RAY_ADDRESS"
            ) from error
    return ray


def names() -> list[str]:
    """Names of all actors of this package, of directories and of members."""
    found = connected().util.list_named_actors(all_namespaces=True)
    return sorted(one["name"] for one in found if one["namespace"] == NAMESPACE)


def services() -> list[str]:
    """Names of the running services of the cluster."""
    return [name for name in names() if _SEPARATOR not in name]


def members(service: str, tier: str) -> list[str]:
    """Names of a service's members of a tier, including members that wait for a node."""
    start = f"{service}{_SEPARATOR}{tier}-"
    return [name for name in names() if name.startswith(start)]


def member(service: str, tier: str, number: int) -> str:
    """A member's name; those of a tier sort by their numbers."""
    return f"{service}{_SEPARATOR}{tier}-{number:06}"


def directory(service: str) -> Any:
    """The actor that knows a service's members.

    Raises `ConfigError` if there is no such service.
    """
    if not isinstance(service, str):
        raise ConfigError(f"the name of a service on Ray is a string, not {service!r}")
    ray = connected()
    try:
        return ray.get_actor(service, namespace=NAMESPACE)
    except ValueError:
        there = ", ".join(f"`{name}`" for name in services())
        raise ConfigError(
            f"no service `{service}` runs on this Ray cluster: "
            + (f"there is {there}" if there else "there is none")
            + "; headwater.ray.start(.., name=..) starts one"
        ) from None


def ask(service: str, method: str, *arguments: Any) -> Any:
    """The answer of a service's directory; waits if the directory is being restarted.

    Raises `ConfigError` if there is no such service.
    """
    ray = connected()
    end = time.monotonic() + _RESTART_S
    while True:
        try:
            return ray.get(getattr(directory(service), method).remote(*arguments))
        except ray.exceptions.RayActorError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)


def has_ended(service: str) -> bool:
    """Whether a service's directory is gone for good."""
    try:
        connected().get_actor(service, namespace=NAMESPACE)
    except ValueError:
        return True
    return False


def check_name(name: Any) -> None:
    """Raises `ConfigError` if this cannot be a service's name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"`name` = {name!r} cannot be a service's name: give letters, digits, `.`, `_` and `-`, a letter "
            "or digit first"
        )
