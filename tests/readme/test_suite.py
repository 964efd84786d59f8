"""scripts/test.sh itself: what it counts, and that nothing goes on when it is ended."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

SUITE = (Path(__file__).resolve().parents[2] / "scripts" / "test.sh").read_text()
LIMIT_S = 20


def script(folder, body):
    """A program of the suite's own functions and of `body`."""
    functions = re.findall(r"^\w+\(\) \{\n.*?^\}\n", SUITE, re.MULTILINE | re.DOTALL)
    within = re.findall(r"^within=.*\n", SUITE, re.MULTILINE)
    traps = re.findall(r"^trap .*\n", SUITE, re.MULTILINE)
    assert len(functions) > 10 and len(within) == 1 and len(traps) == 2
    begin = f"set -uo pipefail\nlogs={folder}/logs\nmkdir $logs\n: >$logs/counts\ndeclare -A beside=()\nlane=main\n"
    return "".join([begin, *functions, *within, *traps, body])


@pytest.mark.parametrize(
    ("says", "status", "counts"),
    [
        ("412 passed in 60.00s", 0, "412 0 0"),
        ("1 failed, 3 passed, 2 skipped, 1 warning in 60.00s (0:01:00)", 1, "3 1 2"),
        ("412 passed in 60.00s\n[W] leaked semaphore objects to clean up at shutdown", 0, "412 0 0"),
        ("9 passed in a test's own text\n2 passed, 1 error in 0.50s\n\n", 1, "2 1 0"),
        ("no tests ran in 0.01s", 5, "0 1 0"),
        ("....\nKilled", 0, "0 1 0"),
        ("....\nTerminated", 143, "0 1 0"),
    ],
)
def test_the_last_summary_of_pytest_is_counted(says, status, counts, tmp_path):
    pytest_stand_in = tmp_path / "venv" / "bin" / "python"
    pytest_stand_in.parent.mkdir(parents=True)
    pytest_stand_in.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\nexit {status}\n")
    pytest_stand_in.chmod(0o755)
    body = f"venv={tmp_path}/venv target=none\npytest_in tests/nothing\ncat $logs/counts >{tmp_path}/counted\n"
    subprocess.run(["bash", "-c", script(tmp_path, body)], check=True, timeout=LIMIT_S, capture_output=True)
    assert (tmp_path / "counted").read_text() == counts + "\n"


def runs(pid):
    try:
        os.kill(pid, 0)
        # One that has ended, and that nobody has waited for.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def test_a_suite_that_is_ended_leaves_no_test_running(tmp_path):
    def test(name):
        return f"bash -c 'echo $$ >{tmp_path}/{name}.new; mv {tmp_path}/{name}.new {tmp_path}/{name}; exec sleep 300'"

    body = f"""
    of_python() {{ local lane=python; said "$logs/of-python" {test("python")}; }}
    others() {{ local lane=others; script others {test("others")}; }}
    beside python of_python
    beside others others
    said "$logs/of-main" {test("main")}
    """
    suite = subprocess.Popen(["bash", "-c", script(tmp_path, body)], start_new_session=True, stdout=subprocess.DEVNULL)
    pids = []
    try:
        tests = [tmp_path / name for name in ("python", "others", "main")]
        until(lambda: all(path.exists() for path in tests))
        pids = [int(path.read_text()) for path in tests]
        os.killpg(suite.pid, signal.SIGTERM)
        assert suite.wait(LIMIT_S) == 130
        until(lambda: not any(map(runs, pids)))
    finally:
        for pid in [suite.pid, *filter(runs, pids)]:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        suite.wait()
