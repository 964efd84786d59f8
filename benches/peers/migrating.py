"""Runs what docs/migrating.md shows of the other loaders: the code under `Before` of each chapter, over data laid out as
the examples have them. What is not installed here, or needs a GPU, is named.

usage: migrating.py    (with the other loaders' packages on the path; requirements-storage.txt has most of them)
"""

import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "examples"))

from test_migrating import write_samples  # noqa: E402

# The module of each chapter's loader.
MODULES = {
    "dino_loader": "dino_loader",
    "WebDataset and DataLoader": "webdataset",
    "torchvision ImageFolder": "torchvision",
    "NVIDIA DALI": "nvidia.dali",
    "Mosaic Streaming": "streaming",
    "Hugging Face datasets": "datasets",
    "FFCV": "ffcv",
}


def chapters():
    """Title and code under `Before` of each loader."""
    text = (ROOT / "docs" / "migrating.md").read_text()
    for chapter in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        before = chapter.split("\nAfter")[0]
        code = re.search(r"\nBefore.*?```python\n(.*?)```", before, re.DOTALL)
        title = chapter.split("\n", 1)[0]
        if title in MODULES and code:
            yield title, code[1]


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run(code):
    """The shapes of the first step's tensors, and the number of steps."""
    steps = []
    # Workers find what they pickle in a module.
    names = {"step": lambda *tensors: steps.append([tuple(tensor.shape) for tensor in tensors]), "epochs": 1}
    main = sys.modules["__main__"].__dict__
    main.update(names)
    exec(compile(code, "<docs/migrating.md>", "exec"), main)
    return steps[0], len(steps)


def alone():
    """A process group of one rank, which DistributedSampler asks for."""
    from torch import distributed

    distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)


def main():
    folder = tempfile.mkdtemp()
    write_samples(Path(folder))
    os.chdir(folder)
    alone()
    print("| loader | its code |\n| --- | --- |")
    for title, code in list(chapters()):
        if not is_there(MODULES[title]):
            print(f"| {title} | not run: no module `{MODULES[title]}` here |", flush=True)
            continue
        shapes, steps = run(code)
        print(f"| {title} | runs: {steps} step(s), the first of {shapes} |", flush=True)


if __name__ == "__main__":
    main()
