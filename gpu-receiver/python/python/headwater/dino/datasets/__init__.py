"""dino_loader's view of the hub: a folder ROOT/CONFIDENTIALITY/MODALITY/NAME/SPLIT of tars, as docs/datasets.md describes it.

`python -m headwater.dino.datasets preview|count|add|stubs` is `headwater datasets` with dino_loader's root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from ...errors import ConfigError
from ..specs import DatasetSpec

__all__ = ["Dataset", "GlobalDatasetFilter", "root"]

_SECTION = "[tool.dino_loader.datasets]"
_VARIABLES = ("HEADWATER_DATASETS_ROOT", "DINO_DATASETS_ROOT")
_USUAL = ("~/.headwater", "~/.dinoloader")


@dataclass(frozen=True)
class GlobalDatasetFilter:
    """Which splits of the hub are taken; `None` takes all names at that level."""

    allowed_confidentialities: Optional[Sequence[str]] = None
    allowed_modalities: Optional[Sequence[str]] = None
    allowed_datasets: Optional[Sequence[str]] = None
    allowed_splits: Optional[Sequence[str]] = None

    def allows(self, split: Path) -> bool:
        """Whether the folder ROOT/CONFIDENTIALITY/MODALITY/NAME/SPLIT is taken."""
        allowed = (self.allowed_confidentialities, self.allowed_modalities, self.allowed_datasets, self.allowed_splits)
        return all(names is None or part in names for names, part in zip(allowed, split.parts[-4:]))


class Dataset:
    """A dataset of the hub, by its name."""

    def __init__(self, name: str, root_path: Union[str, os.PathLike[str], None] = None):
        self.name, self.root = name, root(root_path)

    def splits(self, global_filter: Optional[GlobalDatasetFilter] = None) -> list[Path]:
        """Folders of the splits that have shards, in the order of their names."""
        taken = global_filter or GlobalDatasetFilter()
        found = sorted(self.root.glob(f"*/*/{self.name}/*"))
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
            _, _, section = project.read_text(encoding="utf-8").partition(_SECTION)
            # One line of a table: Python before 3.11 has no reader of TOML.
            found = re.search(r"""^root\s*=\s*["']([^"']+)["']""", section.split("\n[")[0], re.MULTILINE)
            return str(folder / found[1]) if found else None
    return None


def _shards(split: Path) -> Iterator[Path]:
    return (shard for shard in sorted(split.glob("*.tar")) if not shard.name.startswith("."))
