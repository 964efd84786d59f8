"""Hosts that differ in network, name and files: namespaces of this machine. Needs root."""

import os
import shlex
import signal
import subprocess
from pathlib import Path

# Everything but /data is this machine's own; nothing is left behind when the last process ends.
ENTER = """
set -e
hostname {name}
mount --bind {hosts} /etc/hosts
mount -t tmpfs none {root}
for entry in /*; do
    [ "$entry" = /data ] && continue
    if [ -L "$entry" ]; then cp -P "$entry" {root}/; continue; fi
    [ -d "$entry" ] || continue
    mkdir {root}"$entry"
    mount --rbind "$entry" {root}"$entry"
done
mkdir {root}/data
mount --bind {data} {root}/data
exec chroot {root} /usr/bin/env --chdir={folder} sh -c {command}
"""


def ip(*arguments: str, check: bool = True):
    quiet = subprocess.DEVNULL
    return subprocess.run(["ip", *arguments], check=check, stdout=quiet, stderr=quiet)


def unavailable() -> str | None:
    """Why there can be no such hosts here."""
    if os.geteuid() != 0:
        return "not root"
    probe = f"hwr-probe-{os.getpid()}"
    try:
        ip("netns", "add", probe)
    except (OSError, subprocess.CalledProcessError):
        return "`ip netns add` fails: is iproute2 installed?"
    ip("netns", "del", probe)
    return None


class Hosts:
    """Hosts on one switch, known to each other by name."""

    def __init__(self, folder: Path, names: list[str]):
        self.folder, self.processes = folder, []
        self.switch = f"hwr-{os.getpid()}-switch"
        self.spaces = {name: f"hwr-{os.getpid()}-{number}" for number, name in enumerate(names)}
        lines = [f"10.77.0.{number + 1} {name}" for number, name in enumerate(names)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def __enter__(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, space in enumerate(self.spaces.values()):
            ip("netns", "add", space)
            peer = ["peer", "name", "eth0", "netns", space]
            ip("-n", self.switch, "link", "add", f"port{number}", "type", "veth", *peer)
            ip("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
            ip("-n", space, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        return self

    def start(self, name: str, command: str, data: Path) -> tuple[subprocess.Popen, Path]:
        """Starts a shell command on a host whose folder /data is `data`; its log comes with it."""
        root, log = self.folder / f"root-{name}", self.folder / f"{name}.log"
        root.mkdir()
        words = {
            "name": name,
            "hosts": self.folder / "hosts",
            "root": root,
            "data": data,
            "folder": self.folder,
            "command": command,
        }
        script = ENTER.format(**{key: shlex.quote(str(word)) for key, word in words.items()})
        enter = ["ip", "netns", "exec", self.spaces[name], "unshare", "--uts", "sh", "-c", script]
        with log.open("w") as out:
            process = subprocess.Popen(enter, stdout=out, stderr=out, start_new_session=True)
        self.processes.append(process)
        return process, log

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for space in [*self.spaces.values(), self.switch]:
            ip("netns", "del", space, check=False)
