"""dino_loader's view of the hub: a folder ROOT/CONFIDENTIALITY/MODALITY/NAME/SPLIT of tars, as docs/datasets.md describes it.

`python -m headwater.dino.datasets preview|count|add|stubs` is `headwater datasets` with dino_loader's root.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from ...errors import ConfigError
from ..specs import DatasetSpec

__all__ = ["Dataset", "GlobalDatasetFilter", "root"]

_SECTION = ("tool", "dino_loader", "datasets")
# Lines of TOML, for Python without a reader of it.
_HEADER_LINE = re.compile(r"^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*dino_loader[ \t]*\.[ \t]*datasets[ \t]*\][ \t]*(?:#.*)?$", re.MULTILINE)
_ANY_HEADER_LINE = re.compile(r"^[ \t]*\[(?:\[[^][\n]+\]|[^][,\n]+)\][ \t]*(?:#.*)?$", re.MULTILINE)
_ROOT_LINE = re.compile(
    r"""^[ \t]*(?:root|"root"|'root')[ \t]*=[ \t]*(?:"([^"\\\n]+)"|'([^'\n]+)')[ \t]*(?:#.*)?$""", re.MULTILINE
)
_VARIABLES = ("HEADWATER_DATASETS_ROOT", "DINO_DATASETS_ROOT")
_USUAL = ("~/.headwater", "~/.dinoloader")


@dataclass(frozen=True)
class GlobalDatasetFilter:
    """Which splits of the hub are taken; `None` takes all names at that level. Raises `ConfigError` for a string in place of a list."""

    allowed_confidentialities: Optional[Sequence[str]] = None
    allowed_modalities: Optional[Sequence[str]] = None
    allowed_datasets: Optional[Sequence[str]] = None
    allowed_splits: Optional[Sequence[str]] = None

    def __post_init__(self) -> None:
        for key, names in vars(self).items():
            # `in` would take every part of it for a name.
            if isinstance(names, str):
                raise ConfigError(f'`{key}` is the string "{names}": give a list of names, ["{names}"]')

    def allows(self, split: Path) -> bool:
        """Whether the folder ROOT/CONFIDENTIALITY/MODALITY/NAME/SPLIT is taken."""
        allowed = (self.allowed_confidentialities, self.allowed_modalities, self.allowed_datasets, self.allowed_splits)
        return all(names is None or part in names for names, part in zip(allowed, split.parts[-4:]))


class Dataset:
    """A dataset of the hub, by its name. Raises `ConfigError` for a name that no folder can have."""

    def __init__(self, name: str, root_path: Union[str, os.PathLike[str], None] = None):
        if name in ("", ".", "..") or "/" in name:
            raise ConfigError(f'"{name}" is not the name of a dataset: give the name of its folder, without those above and below it')
        self.name, self.root = name, root(root_path)

    def splits(self, global_filter: Optional[GlobalDatasetFilter] = None) -> list[Path]:
        """Folders of the splits that have shards, in the order of their names."""
        taken = global_filter or GlobalDatasetFilter()
        found = sorted(self.root.glob(f"*/*/{glob.escape(self.name)}/*"))
        return [split for split in found if taken.allows(split) and next(_shards(split), None)]

    def to_spec(self, global_filter: Optional[GlobalDatasetFilter] = None, weight: float = 1.0) -> DatasetSpec:
        """The shards of all splits that the filter takes, for `DINODataLoader`.

        Raises `ConfigError` where there is none.
        """
        shards = [str(shard) for split in self.splits(global_filter) for shard in _shards(split)]
        if not shards:
            raise ConfigError(
                f"dataset `{self.name}` has no shard below {self.root} that the filter takes: "
                "`python -m headwater.dino.datasets preview` shows what is there"
            )
        return DatasetSpec(name=self.name, shards=shards, weight=weight)


def root(given: Union[str, os.PathLike[str], None] = None) -> Path:
    """Folder of the hub: as given, `root` in `[tool.dino_loader.datasets]` of the nearest pyproject.toml,
    $HEADWATER_DATASETS_ROOT, $DINO_DATASETS_ROOT, `~/.headwater`, or `~/.dinoloader` where only that is there."""
    named = given or _of_project() or next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), None)
    usual = [Path(folder).expanduser() for folder in _USUAL]
    return Path(named).expanduser() if named else next((folder for folder in usual if folder.is_dir()), usual[0])


def _of_project() -> Optional[str]:
    here = Path.cwd()
    for folder in (here, *here.parents):
        project = folder / "pyproject.toml"
        if project.is_file():
            named = _of_toml(project.read_text(encoding="utf-8"), project)
            return None if named is None else str(folder / Path(named).expanduser())
    return None


def _of_toml(text: str, project: Path) -> Optional[str]:
    """`root` of the section."""
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            found: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{project} cannot be read: {error}") from error
    else:
        return _of_lines(text)
    for key in (*_SECTION, "root"):
        found = found.get(key) if isinstance(found, dict) else None
    if found is not None and not isinstance(found, str):
        raise ConfigError(f"{project}: `root` in `[{'.'.join(_SECTION)}]` is {found!r}: give a folder")
    return found or None


def _of_lines(text: str) -> Optional[str]:
    """The same for Python before 3.11, which has no reader of TOML: a section of that name, and one line."""
    begin = _HEADER_LINE.search(text)
    if begin is None:
        return None
    section = _ANY_HEADER_LINE.split(text[begin.end() :], maxsplit=1)[0]
    found = _ROOT_LINE.search(section)
    return found and (found[1] or found[2])


def _shards(split: Path) -> Iterator[Path]:
    return (shard for shard in sorted(split.glob("*.tar")) if not shard.name.startswith("."))
