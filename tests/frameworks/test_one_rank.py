"""Every framework's loop on one rank: fresh, limited, left early, and resumed."""

import pytest
import scenarios
from conftest import KINDS

# Those of `make test`, whose environment has these frameworks.
SHORT = ("pytorch", "lightning", "accelerate")
LOOPS = (*SHORT, "torchdata", "transformers", "ignite", "torchtnt", "timm", "lightly")


@pytest.fixture(scope="module")
def measured(loop, images, tmp_path_factory):
    """The runs of each scenario of a loop, by the kind of loader; one rank has them."""
    kept = {}

    def measured(name):
        if name not in kept:
            kept.clear()
            module, scratch = loop(name), tmp_path_factory.mktemp(name)
            kept[name] = {kind: {} for kind in KINDS}
            for kind, runs in kept[name].items():
                scenarios.measure(module, kind, images, scratch, lambda scenario, made, runs=runs: runs.update({scenario: [made]}))
        return kept[name]

    return measured


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS)
@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in LOOPS])
def test_no_sample_is_lost_or_comes_twice(measured, loop, compare, name, scenario):
    compare(loop(name).NAME, scenario, measured(name))
