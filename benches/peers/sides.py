"""Two sides that read the same files: each in a process of its own, judged file by file."""

import collections
import json
import select
import subprocess
import typing


class Side:
    """A process that answers questions, a line of JSON each, and is started again after each end."""

    def __init__(self, command: "list[str]", seconds: float) -> None:
        self.command, self.seconds, self.process = command, seconds, None

    def ask(self, **question) -> dict:
        if self.process is None or self.process.poll() is not None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(self.command, text=True, **pipes)
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        how = "crash" if ready else "hang"
        self.process.kill()
        self.process.wait()
        return {"error": how, "fatal": how}


def reason(error: Exception) -> str:
    """An exception in one short line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


class Report:
    """Counts verdicts by format, and keeps what is worth a line."""

    GOOD = ("equal", "refused by both")

    def __init__(self) -> None:
        self.counts, self.listed = collections.Counter(), collections.defaultdict(list)

    def add(self, form: str, verdict: str, name: typing.Any, why: str) -> None:
        self.counts[form, verdict] += 1
        if verdict not in self.GOOD:
            self.listed[verdict].append(f"{name}: {why}")

    def print(self, what: str, most: int) -> int:
        """The table and the lists. Returns the status: 1 if anything differs, or if Headwater crashes or hangs."""
        verdicts = sorted({verdict for _, verdict in self.counts}, key=lambda verdict: (verdict != "equal", verdict))
        print(f"| format | {what} | " + " | ".join(verdicts) + " |")
        print("| --- " * (len(verdicts) + 2) + "|")
        for form in sorted({form for form, _ in self.counts}):
            row = [self.counts[form, verdict] for verdict in verdicts]
            print(f"| {form} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
        for verdict, lines in self.listed.items():
            print(f"\n{verdict}:")
            print("\n".join(lines[:most]))
            if len(lines) > most:
                print(f"and {len(lines) - most} more")
        return int(any(verdict == "different" or "of headwater" in verdict for verdict in verdicts))


def judged(ours: dict, theirs: dict, library: str) -> str:
    """A verdict on two answers: each is an error, or what must be equal."""
    if ours.get("fatal") or theirs.get("fatal"):
        return f"{ours.get('fatal') or theirs['fatal']} of {'headwater' if ours.get('fatal') else library}"
    if "error" in ours:
        return "refused by both" if "error" in theirs else "refused by headwater only"
    if "error" in theirs:
        return f"refused by {library} only"
    return "equal" if ours == theirs else "different"
