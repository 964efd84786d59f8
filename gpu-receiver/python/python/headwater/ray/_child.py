"""The program `headwater` as a child of an actor's process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Optional

from .. import _scripts
from .._native import program
from ..errors import WorkerError

# What it prints of itself.
_LISTENING = "listening on "
_METRICS = "metrics on "
# Start of the line in which it says why it ends.
_LAST_WORDS = "headwater: "


class Child:
    """A tier's process. It is killed when the thread that starts it ends."""

    def __init__(self, arguments: Sequence[str], config: str):
        """Starts it.

        Raises `WorkerError` if this host does not have the program, or it cannot be started.
        """
        path = program()
        if path is None:
            raise WorkerError(
                f"no program `headwater` in {', '.join(_scripts.folders())} or PATH of this node: install the "
                "wheel on every node, or set HEADWATER_PROGRAM"
            )
        command = [path, "--die-with", str(os.getpid()), "--config", "-", *arguments]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(), text=True
            )
        except OSError as error:
            raise WorkerError(f"cannot start `{path}`: {error}") from error
        self.metrics: Optional[str] = None
        self._last_words: Optional[str] = None
        self._log = threading.Thread(target=self._pass_on, name="hw-ray-log", daemon=True)
        self._log.start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(config)
            self._process.stdin.close()
        except BrokenPipeError:
            # It has ended already, and said why.
            pass

    @property
    def pid(self) -> int:
        """Its number among the system's processes."""
        return self._process.pid

    def address(self) -> Optional[str]:
        """Waits until it listens. Returns its address, or None if it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_METRICS):
                self.metrics = line[len(_METRICS) :].strip()
            elif line.startswith(_LISTENING):
                return line[len(_LISTENING) :].strip()
        return None

    def end(self) -> str:
        """Waits for its end. Returns the reason."""
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            pass
        status = self._process.wait()
        self._log.join()
        if self._last_words is not None:
            return self._last_words
        return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def stop(self, limit_s: float) -> None:
        """Asks it to end, and kills it after a while; may be called by any thread."""
        self._process.terminate()
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith(_LAST_WORDS):
                self._last_words = line[len(_LAST_WORDS) :].strip()
            # Ray keeps what an actor writes.
            print(line, end="", file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    """The environment without configuration variables: those of the process that started the service count."""

    def sets_a_key(name: str) -> bool:
        return name.startswith("HEADWATER_") and ("__" in name or name in ("HEADWATER_DATASET", "HEADWATER_CONFIG"))

    return {name: value for name, value in os.environ.items() if not sets_a_key(name)}
