#!/usr/bin/env python3
"""Compares the global batches of two runs: compare.py [--so-far] REFERENCE.jsonl RANK.jsonl..

With --so-far the ranks were ended before the reference was: what they took up to then has to be its beginning.
Exit status 1 where they differ.
"""

import json
import sys
from collections import defaultdict


def batches(paths: list[str], so_far: bool) -> dict[tuple[int, int], list]:
    """Digests of the samples of each global batch, in order, the ranks' joined in theirs."""
    found = defaultdict(dict)
    worlds = set()
    for path in paths:
        for text in open(path):
            line = json.loads(text)
            samples = list(zip(line["keys"], line["digests"]))
            place = found[line["epoch"], line["step"]]
            assert line["rank"] not in place, f"{path}: step {line['step']} came twice"
            place[line["rank"]] = samples
            worlds.add(line["world_size"])
    (world,) = worlds
    whole = {}
    for place, ranks in sorted(found.items()):
        if so_far and len(ranks) < world:
            # The last ones: a rank is ahead of another by some.
            break
        assert sorted(ranks) == list(range(world)), f"{place}: ranks {sorted(ranks)} of {world}"
        whole[place] = [s for _, samples in sorted(ranks.items()) for s in samples]
    return whole


flags = [word for word in sys.argv[1:] if word.startswith("--")]
first, *others = [word for word in sys.argv[1:] if not word.startswith("--")]
so_far = flags == ["--so-far"]
reference, cluster = batches([first], False), batches(others, so_far)
if so_far:
    reference = dict(list(reference.items())[: len(cluster)])
samples = sum(map(len, reference.values()))
if reference != cluster or not samples:
    differing = [place for place in reference if reference[place] != cluster.get(place)]
    sys.exit(
        f"{len(differing)} of {len(reference)} batches differ, the first at (epoch, step) {differing[:1]}"
    )
print(f"{len(reference)} batches, {samples} samples: equal to the last byte, with {len(others)} ranks")
