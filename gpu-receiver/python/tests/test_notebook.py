"""Batches and figures where people look at them."""

import base64
import io
import re

import headwater
import numpy as np
import pytest
from conftest import SMALL, Node


def test_a_batch_shows_its_keys_and_its_pictures(make):
    image = pytest.importorskip("PIL.Image")
    batch = next(iter(make()))
    html = batch._repr_html_()
    assert all(f"<td>{sample.key}</td><td>{sample.label}</td>" in html for sample in batch.samples)
    shown = base64.b64decode(re.search(r'src="data:image/png;base64,([^"]+)"', html)[1])
    assert shown == batch.contact_sheet(4)
    sheet = np.asarray(image.open(io.BytesIO(shown)))
    # Four pixels between views; the first is the first global crop, channels last, as levels.
    view = batch.global_crops.numpy()[0].transpose(1, 2, 0)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = ((view * std + mean) * 255).round()
    np.testing.assert_allclose(sheet[4:36, 4:36], expected, atol=1)
    # 16 rows of the first local crop of the second sample, as they are.
    local = batch.local_crops.numpy()[1].transpose(1, 2, 0)
    left, top = 4 + 2 * (32 + 4), 4 + 32 + 4
    np.testing.assert_array_equal(sheet[top : top + 16, left : left + 24], local)
    assert len(batch.contact_sheet(1)) < len(shown)


def test_a_batch_without_images_has_no_picture(make):
    batch = next(iter(make(recipe={"preset": "raw"})))
    assert "<table>" in batch._repr_html_() and "<img" not in batch._repr_html_()
    with pytest.raises(ValueError, match="no picture"):
        batch.contact_sheet()


def test_figures_print_as_a_table(make):
    loader = make(recipe=SMALL)
    taken = sum(len(batch) for batch in loader)
    stats = loader.stats()
    # Batches of the next epoch may be made already.
    assert isinstance(stats, headwater.Stats) and stats["samples"] >= taken
    lines = dict(line.split() for line in str(stats).splitlines())
    assert lines["samples"] == str(stats["samples"]) and lines["stalled_s"] == f"{stats['stalled_s']:.3f}"
    assert {name for name in lines if name.startswith("link_bytes.")}
    assert len({len(line) for line in str(stats).splitlines()}) == 1
    assert f"<tr><th>samples</th><td>{stats['samples']}</td></tr>" in stats._repr_html_()


def test_figures_count_the_parts_that_were_made_for_another_trial(tiers, tmp_path):
    arguments = ["--listen", "127.0.0.1:0", "--threads", "1", "--storage", tiers.storage]
    node = Node(tmp_path / "augment.log", "augment", *arguments, "--set", "augment.share_bytes=67108864")
    try:
        figures = []
        for _ in range(2):
            with headwater.Loader(**tiers.keywords(workers=[node.address])) as loader:
                steps = sum(1 for _ in loader)
                figures.append(loader.stats())
    finally:
        node.stop()
    first, second = figures
    # A batch is one part; the next epoch's may be made already.
    assert first["parts_shared"] == 0 and second["parts_shared"] >= steps > 0
    assert second["parts_recomputed"] == 0 and second["pace_waits"] == 0
