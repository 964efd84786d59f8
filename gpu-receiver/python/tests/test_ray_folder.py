"""The folder of a process that has services on Ray, while another process starts."""

import fcntl
import tempfile

from headwater.ray._folder import Folder


def test_a_folder_that_is_being_made_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock, others = fcntl.flock, []

    def slow(descriptor, operation):
        if operation == fcntl.LOCK_EX and not others:
            # Starts, and removes what was left behind, before the first one has its lock.
            others.append(None)
            others[0] = Folder()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    folder = Folder()
    assert folder.write("token", "secret").read_text() == "secret"
    assert others[0].write("token", "another").read_text() == "another"
    folder.remove()
    others[0].remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = Folder()
    left = killed.path.with_name(f"{killed.path.name}x")
    killed.path.rename(left)
    killed.remove()
    folder = Folder()
    assert list(tmp_path.iterdir()) == [folder.path]
    folder.remove()
