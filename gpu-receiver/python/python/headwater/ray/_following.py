"""The addresses of a service for `Loader(ray=NAME)`, in files that are kept up to date."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Optional

from ..errors import WorkerError
from ._cluster import ask
from ._folder import Folder
from ._news import News
from ._view import STORAGE, WORKER, Plan, View

_LOG = logging.getLogger("headwater.ray")
# Between looks whether there is a storage node; Ctrl-C is heard between them.
_LOOK_S = 0.1
# Until it is logged that nobody is there.
_PATIENCE_S = 10.0


class Following:
    """Follows a service for the lifetime of this object."""

    def __init__(self, service: str):
        plan: Plan = ask(service, "plan")
        folder = Folder()
        self._service, self._state = service, _State(folder)
        # Lists of addresses, as `receiver.storage` and `receiver.workers` have them.
        self.storage = [folder.entry(STORAGE)]
        self.workers = [folder.entry(WORKER)]
        self.token_file: Optional[str] = None
        if plan.token is not None:
            self.token_file = str(folder.write("token", plan.token))
        news = News(service, self._state.on_view, self._state.on_end)
        weakref.finalize(self, _end, news, self._state)
        news.start()

    def check(self) -> None:
        """Raises `WorkerError` once the service has ended."""
        if self._state.has_ended:
            raise WorkerError(
                f"the service `{self._service}` on Ray has ended: start it again by headwater.ray.start, and make "
                "a new loader"
            )

    def wait(self) -> None:
        """Waits for the first storage node, which may itself wait for a node of the cluster."""
        patient_until = time.monotonic() + _PATIENCE_S
        while not self._state.has_storage.wait(_LOOK_S):
            self.check()
            if time.monotonic() > patient_until:
                patient_until = float("inf")
                troubles = self._state.troubles
                said = "; ".join(f"`{name}`: {trouble}" for name, trouble in troubles.items())
                _LOG.warning(
                    "no storage node of the service `%s` listens yet: %s",
                    self._service,
                    said or "its actors wait for nodes with the resources that they ask for (`ray status`)",
                )


class _State:
    """State that the news thread writes. It does not hold the followed service, so that the service may end."""

    def __init__(self, folder: Folder):
        self.folder: Optional[Folder] = folder
        self.has_storage = threading.Event()
        self.has_ended = False
        self.troubles: dict[str, str] = {}
        self.lock = threading.Lock()

    def on_view(self, view: View) -> None:
        with self.lock:
            if self.folder is None:
                return
            self.troubles = view.troubles(STORAGE)
            self.folder.write_list(WORKER, view.addresses(WORKER))
            if self.folder.write_list(STORAGE, view.addresses(STORAGE)):
                self.has_storage.set()

    def on_end(self) -> None:
        self.has_ended = True


def _end(news: News, state: _State) -> None:
    news.stop()
    with state.lock:
        if state.folder is not None:
            state.folder.remove()
        state.folder = None


def follow(service: str) -> Following:
    """Begins to follow a service; waits until one of its storage nodes listens."""
    following = Following(service)
    following.wait()
    return following
