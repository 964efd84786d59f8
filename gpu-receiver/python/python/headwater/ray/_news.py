"""A thread that receives every change of a service's members."""

from __future__ import annotations

import threading
from typing import Callable, Optional

from ..errors import ConfigError
from ._cluster import directory, library
from ._view import NOTHING_SEEN, View

# How often it is looked whether anybody still wants to hear.
_LOOK_S = 0.5
# Before a directory that could not be reached is asked again.
_PAUSE_S = 0.2


class News:
    """Calls `on_view` with each new view, and `on_end` once when the service has ended."""

    def __init__(
        self,
        service: str,
        on_view: Callable[[View], None],
        on_end: Callable[[], None],
    ):
        self._service = service
        self._on_view, self._on_end = on_view, on_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="hw-ray-news", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread soon, without another call; does not wait."""
        self._stopped.set()

    def _hear(self) -> None:
        from ray.exceptions import RayError

        seen = NOTHING_SEEN
        while not self._stopped.is_set():
            if not library().is_initialized():
                # This process has left the cluster by ray.shutdown(): what it knows of the service stays.
                return
            try:
                view = self._next(seen)
            except RayError:
                # It has ended, or is being restarted.
                self._stopped.wait(_PAUSE_S)
                continue
            except ConfigError:
                break
            if view is not None and view.stamp != seen:
                seen = view.stamp
                self._on_view(view)
        if not self._stopped.is_set():
            self._on_end()

    def _next(self, seen: tuple[str, int]) -> Optional[View]:
        from ray.exceptions import GetTimeoutError

        asked = directory(self._service).view.remote(seen)
        while not self._stopped.is_set():
            try:
                view: View = library().get(asked, timeout=_LOOK_S)
                return view
            except GetTimeoutError:
                pass
        return None
