"""What scripts/install-system.sh says and does on other machines than this one: commands of the system are stand-ins."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install-system.sh"
# What the script itself runs, on every system.
TOOLS = ["sh", "env", "sort", "paste", "mktemp", "chmod", "rm", "uname", "ls"]


@pytest.fixture
def machine(tmp_path):
    """Runs the script where only these commands exist; answers are what stand-ins do, by their names."""
    def run(*words, user, **answers):
        commands = tmp_path / "bin"
        commands.mkdir()
        for tool in TOOLS:
            (commands / tool).symlink_to(shutil.which(tool))
        answers = {"id": f"echo {user}", "python3": "exit 1", "cargo": "", **{name.replace("_", "-"): text for name, text in answers.items()}}
        for name, text in answers.items():
            (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{text}\n')
            (commands / name).chmod(0o755)
        done = subprocess.run([SCRIPT, *words], env={"PATH": str(commands), "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
        calls = (tmp_path / "calls").read_text().splitlines()
        return done, [call for call in calls if not call.startswith(("id ", "python3 ", "cargo "))]
    return run


def test_without_root_the_missing_packages_are_named_and_nothing_is_tried(machine):
    done, calls = machine(user=1000, apt_get="", make="", nasm="")
    assert done.returncode == 1
    assert done.stderr == (
        "packages are missing, and only root can install them. As root: apt-get install gcc g++ cmake python3-venv\n"
    )
    assert calls == []


def test_with_sudo_they_are_installed(machine):
    done, calls = machine(user=1000, apt_get="", make="", nasm="", sudo='"$@"')
    assert done.returncode == 0, done.stderr
    assert "apt-get -qq install -y --no-install-recommends gcc g++ cmake python3-venv" in calls


def test_a_failed_installation_names_them(machine):
    done, _ = machine(user=0, apt_get="exit 100")
    assert done.returncode == 1
    assert "As root: apt-get install gcc g++ make cmake nasm python3-venv\n" in done.stderr


@pytest.mark.parametrize("manager, said", [
    ("dnf", "dnf install cmake gcc gcc-c++ make nasm python3"),
    ("pacman", "pacman -S --needed cmake gcc make nasm python"),
    ("zypper", "install what Debian calls gcc g++ make cmake nasm python3-venv"),
])
def test_other_systems_are_told_their_own_packages(machine, manager, said):
    done, calls = machine(user=0, **{manager: ""})
    assert done.returncode == 1
    assert done.stderr == f"packages are missing, and apt-get is not here to install them. As root: {said}\n"
    assert calls == []


def test_what_only_tests_need_stops_nothing(machine):
    compilers = dict.fromkeys(["cc", "g++", "make", "cmake", "nasm"], "")
    done, calls = machine("tests", user=1000, python3="", apt_get="", sudo="", **compilers)
    assert done.returncode == 0 and calls == []
    assert done.stderr.startswith("packages are missing that root can install on Debian: slurmctld ")
    assert done.stderr.endswith(": tests that need them are skipped\n")


def test_of_packages_that_start_servers_only_programs_are_taken(machine):
    """Debian's package prometheus starts a server on port 9090, and qemu-user-static registers itself in the kernel."""
    compilers = dict.fromkeys(["cc", "g++", "make", "cmake", "nasm"], "")
    unpack = 'mkdir -p usr/bin && for one in promtool prometheus qemu-aarch64-static; do echo "$one" >usr/bin/$one; done'
    apt_get = 'case $2 in download) echo deb >"$3_1_all.deb" ;; esac'
    done, calls = machine("tests", user=0, python3="", apt_get=apt_get, dpkg_deb=unpack, mkdir='/bin/mkdir "$@"', install="", **compilers)
    assert done.returncode == 0, done.stderr
    installed = [call for call in calls if call.startswith("apt-get -qq install")]
    assert len(installed) == 1 and " slurmctld " in installed[0]
    assert not {"prometheus", "qemu-user-static"} & set(installed[0].split())
    assert [call for call in calls if call.startswith("install ")] == [
        f"install usr/bin/{program} /usr/local/bin" for program in ("promtool", "prometheus", "qemu-aarch64-static")
    ]
