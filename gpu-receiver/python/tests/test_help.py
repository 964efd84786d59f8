"""What `help` and editors show of the loader."""

import ast
import inspect
import pydoc
from pathlib import Path

import headwater

STUB = Path(headwater.__file__).with_name("__init__.pyi")


def test_the_signature_has_every_argument_with_its_default(make):
    parameters = inspect.signature(headwater.Loader).parameters
    assert list(parameters)[:6] == ["data", "batch_size", "config", "datasets", "recipe", "dtype"]
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name not in ("data", "batch_size"))
    # What a loader that is told nothing else of them has.
    config = make().config
    said = {"storage", "workers", "batch_samples", "python", "python_path"}
    assert {"batch_size" if key == "batch_samples" else key for key in config} < set(parameters)
    assert {key: parameters[key].default for key in config if key not in said} == {
        key: value for key, value in config.items() if key not in said
    }
    assert parameters["batch_size"].default == 32
    assert parameters["workers"].default == ["127.0.0.1:7402"]
    assert all(parameters[key].default is None for key in ("masks", "mixing", "patches", "python", "python_path", "shuffle_block"))


def test_every_argument_is_one_that_the_loader_takes(make):
    parameters = inspect.signature(headwater.Loader).parameters.items()
    given = {name: parameter.default for name, parameter in parameters}
    # These lead to this test's own tiers.
    for name in ("data", "config", "datasets", "storage", "workers"):
        del given[name]
    loader = make(**given)
    assert loader.config["batch_samples"] == 32
    assert next(iter(loader)).global_crops.dtype == "bf16"


def test_help_shows_the_signature_and_the_arguments():
    text = pydoc.render_doc(headwater.Loader, renderer=pydoc.plaintext)
    assert "class Loader(builtins.object)\n |  Loader(data=None, batch_size=32, *, config=None, datasets=None, recipe='dinov2'," in text
    for argument in ("data:", "datasets:", "recipe:", "batch_size:", "rank, world_size:", "device_allocator:"):
        assert argument in text
    assert "load_state_dict(self, /, state_dict, *, allow=None)" in text
    for method in (headwater.Loader, headwater.Batch, headwater.Tensor, headwater.Iteration, headwater.Sample):
        public = {name: one for name, one in vars(method).items() if not name.startswith("_")}
        assert public and all(one.__doc__ for one in public.values()), method


def test_the_stub_names_no_argument_that_is_not_there():
    tree = ast.parse(STUB.read_text())
    loader = next(c for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "Loader")
    new = next(f for f in loader.body if isinstance(f, ast.FunctionDef) and f.name == "__new__")
    parameters = inspect.signature(headwater.Loader).parameters
    assert {argument.arg for argument in new.args.kwonlyargs} <= set(parameters)


def test_the_stub_has_what_the_module_has():
    tree = ast.parse(STUB.read_text())
    stubs = {c.name: {f.name if isinstance(f, ast.FunctionDef) else None for f in c.body}
             for c in tree.body if isinstance(c, ast.ClassDef)}
    for name in ("Batch", "Iteration", "Loader", "Sample", "Tensor"):
        public = {one for one in vars(getattr(headwater, name)) if not one.startswith("_")}
        assert public == {one for one in stubs[name] if one and not one.startswith("_")}, name
