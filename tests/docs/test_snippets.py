"""Each block of shell or Python in README.md and docs is run, or says why not; names in all of them are there."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, Block
from mark import mark_for
from snippets import PROVIDED, PYTHON, SHELL, all_blocks, faults_of_python, faults_of_shell, free_names

LIMIT_S = 300
# Batches that a loop over a loader gets.
BATCHES = 2
BLOCKS = all_blocks()
UNMARKED = [block for block in BLOCKS if block.mark is None]


def of(languages: set[str], of_blocks: list[Block]) -> list:
    return [pytest.param(block, id=block.place) for block in of_blocks if block.language in languages]


@pytest.mark.parametrize("block", of(SHELL, BLOCKS))
def test_verbs_flags_and_files_are_there(block, help_of):
    assert not faults_of_shell(block, help_of)


@pytest.mark.parametrize("block", of(PYTHON, BLOCKS))
def test_names_and_keywords_are_there(block):
    assert not faults_of_python(block)


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in BLOCKS if block.mark])
def test_a_mark_is_true(block):
    kind, reason = block.mark
    if kind == "runs":
        text = (ROOT / reason).read_text()
        assert Path(block.path).name in text, f"{reason} does not read {block.path}"
    else:
        assert len(reason.split()) >= 3
        for path in re.findall(r"\b(?:tests|gpu-receiver|examples)/[\w./-]*\w", reason):
            assert (ROOT / path).exists(), f"{block.place}: there is no {path}"


def refuse_what_needs_a_mark(block: Block):
    """Fails for a block that would start a service, a build or a job, or that is a fragment."""
    mark = mark_for(block)
    assert mark is None, f"write `<!-- {mark} -->` on the line before it, as tests/docs/mark.py --write does"


@pytest.mark.parametrize("block", of(SHELL, UNMARKED))
def test_shell_runs(block, folder, environment):
    refuse_what_needs_a_mark(block)
    # A session of its own, so that services that a block leaves behind can be ended.
    shell = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=LIMIT_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said


class FewBatches:
    """A loader whose loops end after some batches."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return itertools.islice(iter(self.loader), BATCHES)

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.loader, name)


@pytest.mark.parametrize("block", of(PYTHON, UNMARKED))
def test_python_runs(block, folder, environment, monkeypatch):
    refuse_what_needs_a_mark(block)
    headwater = pytest.importorskip("headwater", reason="the wheel is not installed")
    for module in re.findall(r"^(?:import|from) (torch|jax)\b", block.code, re.MULTILINE):
        pytest.importorskip(module, reason=f"{module} is not installed")
    if ".torch()" in block.code:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(folder)
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    opened, loader_class = [], headwater.Loader

    def open_loader(*arguments, **keywords):
        opened.append(loader_class(*arguments, **keywords))
        return FewBatches(opened[-1])

    monkeypatch.setattr(headwater, "Loader", open_loader)
    try:
        exec(compile(block.code, block.place, "exec"), provided(block, headwater, folder))
    finally:
        for loader in opened:
            loader.close()


def test_the_first_training_of_readme_goes_on_where_it_was_stopped(folder, environment):
    pytest.importorskip("headwater", reason="the wheel is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code = next(block.code for block in BLOCKS if block.path == "README.md" and "last.pt" in block.code)
    # Lost after the first batch of epoch 1, with its state.
    ends = 'torch.save({"model": model.state_dict(), "loader": train.state_dict()}, "last.pt")'
    lost = code.replace("optimizer.zero_grad()\n", f"optimizer.zero_grad()\n        if epoch == 1: {ends}; raise SystemExit\n")
    assert ends in code and lost != code

    def run(script: str) -> str:
        report = "\n        print('batch', batch.epoch, batch.step, flush=True)"
        script = script.replace("        x, labels =", report[1:] + "\n        x, labels =")
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^batch (\d+) (\d+)$", done.stdout, re.MULTILINE)

    steps = [(str(epoch), str(step)) for epoch in range(3) for step in range(2)]
    assert run(lost) + run(code) == steps


def provided(block: Block, headwater, folder: Path) -> dict:
    """What the text around a block has defined already."""
    makers = {
        "headwater": lambda: headwater,
        "numpy": lambda: pytest.importorskip("numpy"),
        "itertools": lambda: itertools,
        "sys": lambda: sys,
        "epochs": lambda: 1,
        "step": lambda: lambda *tensors: None,
        "jpeg_bytes": lambda: (folder / "photo.jpg").read_bytes(),
        "data": lambda: "photos/",
        # torch.utils.data wants the loader itself.
        "loader": lambda: headwater.Loader("photos/", recipe="imagenet-train", batch_size=8).loader,
    }
    assert set(makers) == PROVIDED
    return {"__name__": "snippet"} | {name: makers[name]() for name in free_names(block) & PROVIDED}


# === What the checks above find ===


def block_of(language: str, code: str) -> Block:
    return Block("docs/x.md", 1, language, code, None)


def test_wrong_names_are_found(help_of):
    shell = "headwater run --batch 8 --batches 9\nheadwater walk\nmake nothing\nslurm/none.sbatch\n"
    assert faults_of_shell(block_of("sh", shell), help_of) == [
        "docs/x.md:1: `headwater run` has no flag --batches",
        "docs/x.md:1: no verb `walk`",
        "docs/x.md:1: no target nothing",
        "docs/x.md:1: no file slurm/none.sbatch",
    ]
    python = "import headwater\nfrom headwater.torch import Dataset\nheadwater.Loader('a', batch=8)\nheadwater.errors.Wrong\n"
    assert sorted(faults_of_python(block_of("python", python))) == [
        "docs/x.md:1: headwater.Loader has no keyword batch",
        "docs/x.md:1: headwater.errors has no Wrong",
        "docs/x.md:1: headwater.torch has no Dataset",
    ]


def test_free_names_are_those_that_a_block_does_not_define():
    code = "import a\nb = a.c\ndef f(x):\n    return x + d + len(b)\nfor e in g:\n    print(e)\n"
    assert free_names(block_of("python", code)) == {"d", "g"}
