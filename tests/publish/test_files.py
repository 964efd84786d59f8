"""Files that `headwater publish` writes are read by tensorcom's own tools, and by `headwater.tensorcom`."""

import numpy as np
from headwater.tensorcom import Connection
from tensorcom import tenbin

from digests import digests

SMALL = ["--set", "recipe.preset=imagenet-eval"]


def said(publisher) -> str:
    """What it ended with."""
    assert publisher.end() == 1
    return publisher.log.read_text()


def test_a_batch_is_a_file_that_tensorcom_reads(tiers, tmp_path):
    reference = tiers.reference()
    publisher = tiers.publish("--to", f"file:{tmp_path}/new/b-{{007..}}.ten")
    (url,) = publisher.said("publishing on")
    assert publisher.end() == 0, publisher.log.read_text()
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == [f"b-{7 + n:03}.ten" for n in range(len(reference))]
    for file, line in zip(files, reference):
        batch, infos = tenbin.load(str(file), infos=True)
        assert digests(batch, line["keys"]) == line["digests"], file
        assert infos == ["bf16", "bf16", "labels"]
    # What it says of itself is what its reader is given.
    for batch, line in zip(Connection(url), reference, strict=True):
        assert digests(batch, line["keys"]) == line["digests"]


def test_files_of_another_stream_are_not_replaced_and_the_own_ones_are_written_again(tiers, tmp_path):
    steps = len(tiers.reference(*SMALL))
    to, state = ["--to", f"file:{tmp_path}/{{0..}}.ten", *SMALL], ["--set", f"receiver.checkpoint_dir={tmp_path}/state"]
    state += ["--set", "receiver.checkpoint_every_steps=2", "--set", "receiver.checkpoint_keep=100"]
    first = tiers.publish(*to, *state)
    assert first.end() == 0, first.log.read_text()
    whole = {file.name: file.read_bytes() for file in tmp_path.glob("*.ten")}
    assert len(whole) == steps
    refused = f"{tmp_path}/0.ten is there already: remove the earlier files, write to other names, or"
    assert refused in said(tiers.publish(*to))
    # As a crash leaves it: checkpoints up to the second batch, a file behind them, and one half written.
    for checkpoint in (tmp_path / "state").iterdir():
        checkpoint.name == "dl_state_000000002.json" or checkpoint.unlink()
    for name in whole:
        name in ("0.ten", "2.ten") or (tmp_path / name).unlink()
    (tmp_path / ".3.ten.tmp").write_bytes(b"half")
    begun = (tmp_path / "0.ten").stat().st_mtime_ns
    resumed = tiers.publish(*to, *state, "--set", "receiver.resume=true")
    assert resumed.end() == 0, resumed.log.read_text()
    written = {file.name: file.read_bytes() for file in tmp_path.glob("*.ten")}
    assert written == {name: data for name, data in whole.items() if name != "1.ten"}
    assert (tmp_path / "0.ten").stat().st_mtime_ns == begun
    assert not list(tmp_path.glob(".*"))


def test_files_are_numbered_without_a_gap_where_a_short_batch_is_left_out(tiers, tmp_path):
    # 41 samples are a batch of five ranks with eight each, and one sample that is too few for them.
    ranks = [*SMALL, "--rank", "0", "--world-size", "5", "--set", "receiver.epoch_end=short_last", "--epochs", "3"]
    reference = tiers.reference(*ranks)
    assert len(reference) == 3
    publisher = tiers.publish("--to", f"file:{tmp_path}/b-{{000..}}.ten", *ranks)
    assert publisher.end() == 0, publisher.log.read_text()
    # A reader takes one number after another, until there is no file.
    read = list(Connection(f"file:{tmp_path}/b-{{000..}}.ten"))
    assert len(read) == len(list(tmp_path.iterdir())) == 3
    for batch, line in zip(read, reference, strict=True):
        assert digests(batch, line["keys"]) == line["digests"]


def test_a_stream_that_goes_on_replaces_no_file_of_another_batch(tiers, tmp_path):
    to, state = ["--to", f"file:{tmp_path}/{{0..}}.ten", *SMALL], ["--set", f"receiver.checkpoint_dir={tmp_path}/state"]
    state += ["--set", "receiver.checkpoint_every_steps=2", "--set", "receiver.checkpoint_keep=100"]
    first = tiers.publish(*to, *state)
    assert first.end() == 0, first.log.read_text()
    for checkpoint in (tmp_path / "state").iterdir():
        checkpoint.name == "dl_state_000000002.json" or checkpoint.unlink()
    (tmp_path / "3.ten").write_bytes((tmp_path / "0.ten").read_bytes())
    refused = f"{tmp_path}/3.ten is there already with another batch: the stream goes on with another number of ranks"
    assert refused in said(tiers.publish(*to, *state, "--set", "receiver.resume=true"))
    assert (tmp_path / "3.ten").read_bytes() == (tmp_path / "0.ten").read_bytes()


def test_a_series_ends_where_its_numbers_do(tiers, tmp_path):
    publisher = tiers.publish("--to", f"file:{tmp_path}/{{0..1}}.ten", "--epochs", "0", *SMALL)
    assert publisher.end() == 0, publisher.log.read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.ten", "1.ten"]
    assert tenbin.load(f"{tmp_path}/1.ten")[1].dtype == np.int32


def test_a_file_that_cannot_be_written_is_named(tiers, tmp_path):
    (tmp_path / "1.ten").mkdir()
    (tmp_path / ".0.ten.tmp").mkdir()
    assert f"cannot write {tmp_path}/0.ten: check the disk's free space" in said(
        tiers.publish("--to", f"file:{tmp_path}/{{0..}}.ten", *SMALL)
    )
    (tmp_path / "file").write_text("")
    assert f"cannot make the folder {tmp_path}/file" in said(
        tiers.publish("--to", f"file:{tmp_path}/file/{{0..}}.ten", *SMALL)
    )
