"""The actor that keeps one storage node or worker running on its node."""

from __future__ import annotations

import threading
import uuid
from typing import Any, Optional

from ..errors import ConfigError, WorkerError
from ._child import Child
from ._cluster import ask, directory, library
from ._folder import Folder
from ._news import News
from ._view import STORAGE, WORKER, Entry, Plan, View

# Between the end of a program and the next start; it doubles up to the longest while none listens.
_PAUSE_S, _PAUSE_MAX_S = 0.2, 10.0
# Beyond the drain that the program's own configuration allows by default.
_STOP_S = 25.0
# Threads for calls: one that never returns has its own group.
STAY = "stay"
CALLS = {"max_concurrency": 4, "concurrency_groups": {STAY: 1}}
_VERBS = {STORAGE: "storage", WORKER: "augment"}


class Member:
    """A storage node or a worker: its program as a child that is started again when it ends."""

    def __init__(self, service: str, name: str, tier: str):
        ray = library()
        self._service, self._name, self._tier = service, name, tier
        self._self = ray.get_runtime_context().current_actor
        address = ray.util.get_node_ip_address()
        self._host = f"[{address}]" if ":" in address else address
        self._folder = Folder()
        self._entry = Entry(tier, uuid.uuid4().hex, 0)
        self._child: Optional[Child] = None
        self._stopping = threading.Event()
        self._has_storage = threading.Event()
        # Guards the entry, the child and the start of one.
        self._lock = threading.Lock()
        # The child dies with the thread that starts it.
        self._keeper = threading.Thread(target=self._keep, name="hw-ray-keep", daemon=True)
        self._keeper.start()
        News(service, self._on_view, self._on_end).start()

    def stay(self) -> None:
        """Never returns. The call fails when this process is lost; so do further calls."""
        threading.Event().wait()

    def leave(self) -> None:
        """Ends the program after it has answered its open requests. It is not started again."""
        self._stop()

    def child(self) -> Optional[int]:
        """Process number of the program on its node; None while it does not run."""
        child = self._child
        return None if child is None else child.pid

    def _keep(self) -> None:
        try:
            plan: Plan = ask(self._service, "plan")
        except ConfigError:
            # It has ended; so it is heard in the news.
            return
        pause = _PAUSE_S
        while not self._stopping.is_set():
            if self._tier == WORKER and not self._has_storage.wait(_PAUSE_S):
                continue
            listened, trouble = self._run_once(plan)
            if self._stopping.is_set():
                return
            self._say(address=None, metrics=None, trouble=trouble)
            pause = _PAUSE_S if listened else min(2 * pause, _PAUSE_MAX_S)
            self._stopping.wait(pause)

    def _run_once(self, plan: Plan) -> tuple[bool, str]:
        """Runs the program to its end. Returns whether it has listened, and why it ended."""
        try:
            with self._lock:
                if self._stopping.is_set():
                    return False, ""
                child = self._child = Child(self._arguments(plan), plan.config)
        except WorkerError as error:
            return False, str(error)
        address = child.address()
        if address is not None and not self._stopping.is_set():
            self._say(address=address, metrics=self._reachable(child.metrics), trouble=None)
        trouble = child.end()
        self._child = None
        return address is not None, trouble

    def _reachable(self, address: Optional[str]) -> Optional[str]:
        """An address as other nodes see it: "all addresses" becomes this node's own."""
        host, _, port = (address or "").rpartition(":")
        return f"{self._host}:{port}" if host in ("0.0.0.0", "[::]") else address

    def _arguments(self, plan: Plan) -> list[str]:
        arguments = [_VERBS[self._tier], "--listen", f"{self._host}:0"]
        if self._tier == WORKER:
            arguments += ["--storage", self._folder.entry(STORAGE)]
        if plan.token is not None:
            token = self._folder.write("token", plan.token)
            arguments += ["--set", f"security.token_file={token}"]
        return arguments

    def _say(self, **news: Any) -> None:
        with self._lock:
            self._entry = self._entry._replace(turn=self._entry.turn + 1, **news)
            self._announce()

    def _announce(self) -> None:
        """Tells the directory. If a message is lost, it is repeated with the next view."""
        try:
            directory(self._service).announce.remote(self._name, self._self, self._entry)
        except ConfigError:
            # It has ended; so it is heard in the news.
            pass

    def _on_view(self, view: View) -> None:
        if self._stopping.is_set():
            return
        if self._folder.write_list(STORAGE, view.addresses(STORAGE)):
            self._has_storage.set()
        with self._lock:
            # A directory that was restarted, or that could not reach this one for a moment.
            if view.members.get(self._name) != self._entry:
                self._announce()

    def _on_end(self) -> None:
        self._stop()
        library().kill(self._self, no_restart=True)

    def _stop(self) -> None:
        self._stopping.set()
        with self._lock:
            child = self._child
        if child is not None:
            self._say(address=None, metrics=None, trouble=None)
            child.stop(_STOP_S)
        self._keeper.join()
        # Ray kills this process next, which would leave the token behind.
        self._folder.remove()
