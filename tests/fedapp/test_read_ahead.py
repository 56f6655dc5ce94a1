import os
from pathlib import Path

import pytest

from fedapp import read_ahead
from fedapp.read_ahead import BYTES, FILES, ReadAhead

PATHS = [Path(f"f{k}") for k in range(40)]


@pytest.fixture
def asked(monkeypatch):
    """The files asked for, with the last span."""
    found = []
    monkeypatch.setattr(
        read_ahead, "_ask", lambda path, *spans: found.append((path, spans[-1]))
    )
    return found


def test_every_file_is_asked_for_once_before_its_turn(asked):
    ahead = ReadAhead(PATHS)
    for turn in range(len(PATHS)):
        ahead.step()
        ahead.expect((100, 200))
        assert [path for path, _ in asked] == PATHS[1 : turn + FILES + 1]
    # The first one is being read already; the next had to be guessed at.
    assert [span for _, span in asked] == [(0, 0)] * FILES + [(100, 200)] * 23


def test_large_files_are_asked_for_fewer_at_a_time(asked):
    ahead = ReadAhead(PATHS)
    ahead.expect((0, BYTES // 3))
    ahead.step()
    assert len(asked) == 3
    ahead.expect((0, 2 * BYTES))
    for _ in range(5):
        ahead.step()
    assert len(asked) == 6


def test_asking_for_what_is_not_there_is_harmless(tmp_path):
    ahead = ReadAhead([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    (tmp_path / "b").write_bytes(b"0123456789")
    ahead.expect((4, 8))
    for _ in range(5):
        ahead.step()


def test_a_system_without_hints_goes_without(tmp_path, monkeypatch):
    (tmp_path / "b").write_bytes(b"0123456789")
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    ahead = ReadAhead([tmp_path / "a", tmp_path / "b"])
    ahead.expect((4, 8))
    ahead.step()


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no hints here")
def test_the_system_is_asked_for_the_bytes_wanted(tmp_path, monkeypatch):
    (tmp_path / "b").write_bytes(b"0123456789")
    found = []
    monkeypatch.setattr(
        os,
        "posix_fadvise",
        lambda file, start, length, what: found.append((start, length, what)),
    )
    ahead = ReadAhead([tmp_path / "a", tmp_path / "b"])
    ahead.expect((4, 8))
    ahead.step()
    will = os.POSIX_FADV_WILLNEED
    assert found == [(0, read_ahead.HEADER, will), (4, 4, will)]
