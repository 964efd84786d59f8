#!/usr/bin/env python3
"""Puts the program's configuration keys into the chart's values.schema.json.

The keys come from docs/configuration.md, which the program writes and a test keeps up to date; so a
misspelt key is refused by `helm install` already. `--check` only says whether the schema is up to
date.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "configuration.md"
SCHEMA = ROOT / "helm" / "headwater" / "values.schema.json"

# Of programs that the chart does not start: no file of its tiers has them.
ELSEWHERE = {"autoscale", "scaling", "monitor"}

# The largest integer up to which Helm keeps all of them apart.
INTEGER_MAX = 2**53 - 1

# What may also be something else than its default's kind.
OTHER_KINDS = {
    # Helm rounds numbers above 2^53, so a larger seed is a string of digits.
    ("receiver", "seed"): {"type": ["integer", "string"], "maximum": INTEGER_MAX, "pattern": "^[0-9]+$"},
    ("receiver", "epoch_end"): {"type": ["string", "object"]},
    ("receiver", "resume"): {"type": ["boolean", "string"]},
}
HEADING = re.compile(r"## `(\[\[?)(\w+)\]\]?`")
KEY = re.compile(r"- \*\*`(\w+)`\*\* \((?:default `(.+?)`|not set)")


def kind(default: "str | None") -> dict:
    """The schema of a key by the default in the reference, a TOML value; None if it is not set."""
    value = default or ""
    if value in ("true", "false"):
        return {"type": "boolean"}
    if value.startswith('"'):
        return {"type": "string"}
    if value.startswith("["):
        return {"type": "array"}
    if re.fullmatch(r"-?\d+", value):
        return {"type": "integer", "maximum": INTEGER_MAX}
    if re.fullmatch(r"-?\d*\.\d+", value):
        return {"type": "number"}
    return {}  # not set: the program says what it may be


def table(section: str, keys: dict) -> dict:
    properties = {
        key: OTHER_KINDS.get((section, key), kind(default)) for key, default in keys.items()
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def config_schema(reference: str) -> dict:
    """The schema of `config`: every section that a tier reads, every key, and nothing else."""
    sections = {}
    repeated = set()
    section = None
    for line in reference.splitlines():
        if heading := HEADING.match(line):
            section = heading[2]
            sections[section] = {}
            if heading[1] == "[[":
                repeated.add(section)
        elif section and (key := KEY.match(line)):
            sections[section][key[1]] = key[2]
    properties = {}
    for name, keys in sections.items():
        if name in ELSEWHERE:
            continue
        one = table(name, keys)
        properties[name] = {"type": "array", "items": one} if name in repeated else one
    return {"type": "object", "additionalProperties": False, "properties": properties}


def main() -> int:
    schema = json.loads(SCHEMA.read_text())
    config = config_schema(REFERENCE.read_text())
    if sys.argv[1:] == ["--check"]:
        if schema["definitions"]["config"] == config:
            return 0
        print(f"{SCHEMA} lacks keys of docs/configuration.md: run scripts/chart-schema.py")
        return 1
    schema["definitions"]["config"] = config
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
