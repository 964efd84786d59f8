#!/usr/bin/env python3
"""Compares the global batches of two runs: compare.py REFERENCE.jsonl RANK.jsonl..

Exit status 1 where they differ.
"""

import json
import sys
from collections import defaultdict


def batches(paths: list[str]) -> dict[tuple[int, int], list]:
    """Digests of the samples of each global batch, the ranks' joined in their order."""
    found = defaultdict(dict)
    for path in paths:
        for text in open(path):
            line = json.loads(text)
            samples = list(zip(line["keys"], line["digests"]))
            place = found[line["epoch"], line["step"]]
            assert line["rank"] not in place, f"{path}: step {line['step']} came twice"
            place[line["rank"]] = (samples, line["world_size"])
    for place, ranks in found.items():
        (world,) = {world for _, world in ranks.values()}
        assert sorted(ranks) == list(range(world)), f"{place}: ranks {sorted(ranks)} of {world}"
    return {
        place: [s for _, (samples, _) in sorted(ranks.items()) for s in samples]
        for place, ranks in found.items()
    }


reference, cluster = batches(sys.argv[1:2]), batches(sys.argv[2:])
samples = sum(map(len, reference.values()))
if reference != cluster or not samples:
    differing = [place for place in reference if reference[place] != cluster.get(place)]
    sys.exit(
        f"{len(differing)} of {len(reference)} batches differ, the first at (epoch, step) {differing[:1]}"
    )
print(
    f"{len(reference)} batches, {samples} samples: equal to the last byte, with {len(sys.argv) - 2} ranks"
)
