"""Runs loops of frameworks with Headwater's loader and with PyTorch's, and compares what they got of the samples.

    pytest tests/frameworks -m 'not long'    # what `make test` runs
    pytest tests/frameworks                  # `make test-frameworks`
    pytest tests/frameworks --write          # the same, and writes the table of docs/frameworks.md
"""

import importlib
import importlib.metadata
import logging
import os

import pytest
import scenarios
import table

KINDS = ("pytorch", "headwater")
DISTRIBUTIONS = {"ignite": "pytorch-ignite"}


def pytest_addoption(parser):
    parser.addoption("--write", action="store_true", help="write the table of docs/frameworks.md")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: needs packages that only `make test-frameworks` installs, or takes its time")
    config.measured = table.Measured()


def pytest_sessionfinish(session):
    if session.config.getoption("--write"):
        session.config.measured.write(scenarios.SCENARIOS)


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    from images import write

    return write(tmp_path_factory.mktemp("images") / "images")


@pytest.fixture(scope="session", autouse=True)
def no_launcher():
    """The tests' own launcher must not say which rank they are."""
    from launch import PREFIXES, VARIABLES

    for name in list(os.environ):
        if (name in VARIABLES or name.startswith(PREFIXES)) and name not in ("HEADWATER_BIN", "HEADWATER_LOG", "HEADWATER_UPSTREAMS"):
            del os.environ[name]
    if "HEADWATER_BIN" in os.environ:
        os.environ["HEADWATER_PROGRAM"] = os.environ["HEADWATER_BIN"]
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def loop(request):
    """Imports a loop of loops/, or skips."""

    def loop(name):
        # Each loop names what it needs before it is imported.
        for package in NEEDS.get(name, (name,)):
            pytest.importorskip(package, reason=f"{package} is not installed")
        module = importlib.import_module(f"loops.{name}")
        for package in module.PACKAGES:
            distribution = DISTRIBUTIONS.get(package, package)
            version = importlib.metadata.version(distribution).partition("+")[0]
            request.config.measured.versions[distribution.replace("_", "-")] = version
        return module

    return loop


NEEDS = {
    "pytorch": ("torch",),
    "lightning_ddp": ("lightning",),
    "lightly": ("lightly", "pytorch_lightning"),
    "accelerate": ("accelerate", "torchdata"),
    "timm": ("timm", "torchvision"),
    "torchtnt": ("torchtnt", "torchdata"),
}


@pytest.fixture
def compare(request):
    """Holds a row of the table: what Headwater must give, and that the page says what both gave."""

    def compare(framework, scenario, of_kinds):
        said, world_size = {}, len(of_kinds["headwater"][scenario])
        for kind, runs in of_kinds.items():
            said[kind] = scenarios.result(scenario, runs[scenario])
            if scenario in scenarios.RESUMED:
                is_same = all(map(scenarios.same, runs[scenario], runs[scenarios.FRESH]))
                said[kind] += ", as without the stop" if is_same else ""
        count, size = scenarios.expected(scenario, world_size)
        wanted = f"{size} of {size}, none twice" + (", as without the stop" if scenario in scenarios.RESUMED else "")
        assert said["headwater"] == wanted, f"{framework}, {scenario}, {world_size} ranks"
        place, cells = table.Place(framework, scenario, world_size), table.Cells(**said)
        request.config.measured.cells[place] = cells
        if not request.config.getoption("--write"):
            on_page = table.parsed(table.PAGE.read_text()).get(place)
            assert on_page == cells, "docs/frameworks.md says something else: pytest tests/frameworks --write"

    return compare
