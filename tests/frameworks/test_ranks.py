"""Several ranks: every framework's loop under torchrun, and every launcher."""

import contextlib

import launch
import pytest
import ranks
import scenarios

LOOPS = ("torchdata", "transformers", "accelerate", "ignite", "torchtnt", "timm", "lightly", "lightning")
LAUNCHERS = ("torchrun", "spawn", "mpirun", "srun")
SIZES = (1, 2, 4)
NAMES = {"spawn": "mp.spawn"}


def checked(loop, compare, images, out, launcher, name, framework, world_size):
    loop(name)
    if missing := launch.missing(launcher):
        pytest.skip(missing)
    with launch.cluster() if launcher == "srun" else contextlib.nullcontext():
        launch.launch(launcher, name, images, out, world_size)
    of_kinds = {kind: ranks.read(out, kind, world_size) for kind in ranks.KINDS}
    for scenario in scenarios.SCENARIOS:
        compare(framework, scenario, of_kinds)


@pytest.mark.long
@pytest.mark.parametrize("world_size", SIZES[1:])
@pytest.mark.parametrize("name", LOOPS)
def test_ranks_of_a_framework_share_each_epoch(loop, compare, images, tmp_path, name, world_size):
    checked(loop, compare, images, tmp_path, "torchrun", name, loop(name).NAME, world_size)


@pytest.mark.parametrize("world_size", SIZES)
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.long
def test_ranks_of_a_launcher_share_each_epoch(loop, compare, images, tmp_path, launcher, world_size):
    framework = f"PyTorch, {NAMES.get(launcher, launcher)}"
    checked(loop, compare, images, tmp_path, launcher, "pytorch", framework, world_size)


@pytest.mark.long
@pytest.mark.parametrize("world_size", SIZES)
def test_ranks_that_lightning_starts_share_each_epoch(loop, compare, images, tmp_path, world_size):
    checked(loop, compare, images, tmp_path, "lightning", "lightning_ddp", "Lightning, its own ddp", world_size)
