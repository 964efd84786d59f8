"""Starts services on a Ray cluster, and has their handle."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from .._native import service_config
from ..errors import ConfigError, HeadwaterError, StorageError, WorkerError
from . import _cluster
from ._directory import Directory
from ._member import CALLS, Member
from ._view import NOTHING_SEEN, STORAGE, WORKER, Plan, View

# Options of actors that are not the user's to set.
_OURS = {"name", "namespace", "lifetime", "max_restarts", "max_task_retries", "get_if_exists", *CALLS}
_DEFAULTS = {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
# Each member and each loader has a call open.
_CALLS_MAX = 100_000
_TOKEN_BYTES = 32
# Time for members to leave, and for Ray to forget a name.
_LEAVE_S, _FORGET_S = 30.0, 30.0
_LOOK_S = 0.05
# What is raised where no member of a tier can be had.
_KINDS: dict[str, type[HeadwaterError]] = {STORAGE: StorageError, WORKER: WorkerError}
# Directories that this process has started: Ray ends an actor whose last handle is gone.
_OWNED: dict[str, Any] = {}


class Addresses(NamedTuple):
    """Addresses where a service listens or serves metrics: `host:port` of each member."""

    storage: list[str]
    workers: list[str]


class Service:
    """A running service of the cluster, started by any process. You may send it to tasks and actors."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<headwater.ray.Service {self.name}>"

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def addresses(self) -> Addresses:
        """Members that listen now."""
        view = self._view()
        return Addresses(view.addresses(STORAGE), view.addresses(WORKER))

    @property
    def metrics(self) -> Addresses:
        """Their addresses for /metrics; empty without `telemetry.metrics_listen`."""
        view = self._view()
        return Addresses(view.metrics(STORAGE), view.metrics(WORKER))

    @property
    def troubles(self) -> dict[str, str]:
        """Why programs have ended, for members that do not listen again yet."""
        return self._view().troubles()

    @property
    def pending(self) -> list[str]:
        """Members without a process: Ray looks for a node, or the cluster must grow."""
        there = self._view().members
        return [name for tier in (STORAGE, WORKER) for name in self._members(tier) if name not in there]

    def scale(self, *, workers: Optional[int] = None, storage_nodes: Optional[int] = None) -> None:
        """Sets the numbers of members. Does not wait for new members; members that leave finish their leases.

        Raises `ConfigError` for an invalid number.
        """
        self._scale(_counts(storage_nodes, workers))

    def _scale(self, wanted: Mapping[str, int]) -> list[Any]:
        """Sets the numbers of members of tiers; returns the new actors."""
        plan: Plan = _cluster.ask(self.name, "plan")
        leaving: list[str] = []
        started = []
        for tier, count in wanted.items():
            present = self._members(tier)
            if len(present) > count:
                # First those that have no process; then the newest.
                there = self._view().members
                present.sort(key=lambda name: (name not in there, name))
                leaving += present[count:]
            free = (_cluster.member(self.name, tier, number) for number in range(count + len(present)))
            new = [name for name in free if name not in present]
            for name in new[: max(count - len(present), 0)]:
                started.append(self._start(name, tier, plan))
        self._leave(leaving)
        return started

    def wait(self, timeout_s: Optional[float] = None) -> None:
        """Waits until a member of each tier listens.

        Raises `StorageError` or `WorkerError` with the reason if programs of a tier have ended instead, and
        `WorkerError` after `timeout_s`.
        """
        self._wait([], timeout_s)

    def _wait(self, new: list[Any], timeout_s: Optional[float]) -> None:
        """As `wait`; raises Ray's error if the process of a new member cannot start."""
        ray = _cluster.connected()
        begun = [actor.__ray_ready__.remote() for actor in new]
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            view = self._view()
            missing = [tier for tier in _KINDS if self._members(tier) and not view.addresses(tier)]
            for tier in missing:
                for member, trouble in view.troubles(tier).items():
                    raise _KINDS[tier](f"`{member}` on Ray has ended: {trouble}")
            if not missing:
                return
            if end is not None and time.monotonic() > end:
                raise WorkerError(
                    f"no member of tier {missing[0]} of `{self.name}` listens after {timeout_s} s; "
                    f"without a process: {', '.join(self.pending) or 'none'}. `ray status` shows what nodes lack"
                )
            begun = _check_begun(ray, begun)
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Ends the service: workers finish their leases, then all of its processes end. It may have ended before."""
        ray = _cluster.connected()
        self._leave(self._members(STORAGE) + self._members(WORKER))
        _kill(ray, self.name)
        _OWNED.pop(self.name, None)
        end = time.monotonic() + _FORGET_S
        while time.monotonic() < end:
            # Some may have been started meanwhile by somebody else's `scale`.
            left = self._members(STORAGE) + self._members(WORKER)
            if not left and _cluster.has_ended(self.name):
                return
            for name in left:
                _kill(ray, name)
            time.sleep(_LOOK_S)

    def _members(self, tier: str) -> list[str]:
        return _cluster.members(self.name, tier)

    def _view(self) -> View:
        view: View = _cluster.ask(self.name, "view", NOTHING_SEEN)
        return view

    def _start(self, name: str, tier: str, plan: Plan) -> Any:
        ray = _cluster.connected()
        # Detached from the process that asks for it; it ends with the directory.
        own = {"name": name, "namespace": _cluster.NAMESPACE, "lifetime": "detached", "get_if_exists": True}
        actor = ray.remote(**CALLS)(Member).options(**{**plan.options[tier], **own, "max_restarts": -1})
        return actor.remote(self.name, name, tier)

    def _leave(self, names: list[str]) -> None:
        """Ends members: running members are asked first."""
        if not names:
            return
        ray = _cluster.connected()
        try:
            there = self._view().members
        except ConfigError:
            there = {}
        asked = []
        for name in names:
            if name in there:
                try:
                    asked.append(ray.get_actor(name, namespace=_cluster.NAMESPACE).leave.remote())
                except ValueError:
                    continue
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=_LEAVE_S)
        for name in names:
            _kill(ray, name)


def start(
    datasets: Any = None,
    *,
    name: str = "headwater",
    workers: int = 1,
    storage_nodes: int = 1,
    config: Any = None,
    settings: Optional[Mapping[str, Any]] = None,
    worker_options: Optional[Mapping[str, Any]] = None,
    storage_options: Optional[Mapping[str, Any]] = None,
    detached: bool = False,
    wait: bool = True,
) -> Service:
    """Starts storage nodes and augment workers as actors of Ray; the loader finds them by `ray=name`.

    Raises `ConfigError` for a wrong argument or key, or a name in use. With `wait`, raises `StorageError` or
    `WorkerError` if the first programs end with an error.
    """
    _cluster.check_name(name)
    counts = _counts(storage_nodes, workers)
    options = {STORAGE: _options("storage_options", storage_options), WORKER: _options("worker_options", worker_options)}
    threads = max(int(options[WORKER]["num_cpus"] or 0), 1)
    has_gpu = bool(options[WORKER].get("num_gpus"))
    path = None if config is None else os.fspath(config)
    text, is_guarded = service_config(datasets, path, dict(settings or {}), threads, has_gpu)
    token = None if is_guarded else secrets.token_hex(_TOKEN_BYTES)
    ray = _cluster.connected()
    own = {"name": name, "namespace": _cluster.NAMESPACE, "max_restarts": -1, "max_concurrency": _CALLS_MAX}
    actor = ray.remote(Directory).options(**own, num_cpus=0, lifetime="detached" if detached else None)
    try:
        _OWNED[name] = actor.remote(Plan(text, token, options))
    except ValueError as error:
        if _cluster.has_ended(name):
            raise ConfigError(f"Ray does not take the service `{name}`: {error}") from error
        raise ConfigError(
            f"a service `{name}` runs on this Ray cluster already: headwater.ray.get(`{name}`) is its handle; stop "
            "it first, or give another `name`"
        ) from None
    service = Service(name)
    try:
        new = service._scale(counts)
        if wait:
            service._wait(new, None)
    except BaseException:
        service.stop()
        raise
    return service


def get(name: str = "headwater") -> Service:
    """The handle of a running service of the cluster.

    Raises `ConfigError` if there is no service with that name; the error lists the existing services.
    """
    _cluster.directory(name)
    return Service(name)


def services() -> list[str]:
    """Names of the running services of the cluster."""
    return _cluster.services()


def _check_begun(ray: Any, begun: list[Any]) -> list[Any]:
    """Raises Ray's error for actors whose processes cannot start; returns the calls that are still open."""
    if not begun:
        return []
    done, still = ray.wait(begun, timeout=_LOOK_S)
    for call in done:
        try:
            ray.get(call)
        except ray.exceptions.ActorUnavailableError:
            # Its node was lost: it is being restarted.
            pass
    return list(still)


def _kill(ray: Any, name: str) -> None:
    try:
        ray.kill(ray.get_actor(name, namespace=_cluster.NAMESPACE), no_restart=True)
    except ValueError:
        # It has ended.
        pass


def _counts(storage_nodes: Any, workers: Any) -> dict[str, int]:
    """The requested number of members of each tier, if a number is given."""
    counts = {}
    for tier, key, count, least in [(STORAGE, "storage_nodes", storage_nodes, 1), (WORKER, "workers", workers, 0)]:
        if count is None:
            continue
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise ConfigError(f"`{key}` = {count!r}: give a whole number, {least} or more")
        counts[tier] = count
    return counts


def _options(key: str, given: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Ray's options for the actors of a tier, including the defaults."""
    options = dict(given or {})
    ours = sorted(_OURS & set(options))
    if ours:
        raise ConfigError(f"`{key}` has `{ours[0]}`, which the service sets by itself: leave it out")
    return {**_DEFAULTS, **options}
