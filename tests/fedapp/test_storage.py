"""What a run keeps between rounds: commits, and clients' memories beside them."""

import pytest
import torch

from fedapp.checkpoint import Commit
from fedapp.run_folder import RunFolder
from fedapp.storage import Storage
from fedapp.versions import Versions, owner_name


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


@pytest.fixture
def memory(folder):
    return Versions(folder.path / "memory")


def remember(memory, client, round_):
    memory.write(owner_name(client), (round_, 0), {"head": {"w": torch.ones(1)}})


def kept(memory, client):
    home = memory.folder / owner_name(client)
    return sorted(int(file.name[1:7]) for file in home.iterdir())


def commit(storage, round_, held):
    storage.write(
        Commit(
            round=round_,
            params={},
            state={},
            bank={},
            held={client: (at, 0) for client, at in held.items()},
            tables={},
            books={},
        )
    )


def test_memories_go_when_no_commit_needs_them(folder, memory):
    storage = Storage(folder)
    for round_ in (1, 2, 3):
        remember(memory, 0, round_)
        commit(storage, round_, {0: round_})
    assert kept(memory, 0) == [2, 3]
    commit(storage, 4, {0: 3})
    assert kept(memory, 0) == [3]


def test_a_memory_that_is_held_outlives_one_whose_reply_was_dropped(folder, memory):
    """Round 6 was too late for the server; client 0 goes on from round 5."""
    storage = Storage(folder)
    remember(memory, 0, 4)
    commit(storage, 4, {0: 4})
    remember(memory, 0, 5)
    commit(storage, 5, {0: 5})
    remember(memory, 0, 6)
    for round_ in (6, 7, 8, 9):
        commit(storage, round_, {0: 5})
        assert memory.latest(owner_name(0), before=(5, 1)) is not None
    assert kept(memory, 0) == [5, 6]


def test_clients_that_sat_out_are_not_looked_at(folder, memory, monkeypatch):
    storage = Storage(folder)
    held = dict.fromkeys(range(20), 1)
    for client in held:
        remember(memory, client, 1)
    commit(storage, 1, held)
    looked, prune = [], Versions.prune
    monkeypatch.setattr(
        Versions,
        "prune",
        lambda self, owner, **kind: looked.append(owner) or prune(self, owner, **kind),
    )
    remember(memory, 7, 2)
    commit(storage, 2, held | {7: 2})
    assert looked == [owner_name(7)]
    commit(storage, 3, held | {7: 2})
    commit(storage, 4, held | {7: 2})
    # Once more, when the version of round 1 was no longer needed.
    assert looked == [owner_name(7)] * 2
    assert kept(memory, 7) == [2]


def test_a_resumed_run_deletes_what_is_left_over(folder, memory):
    storage = Storage(folder)
    for round_ in (1, 2):
        remember(memory, 0, round_)
        commit(storage, round_, {0: round_})
    again = Storage(folder)
    assert again.take_up().round == 2
    assert kept(memory, 0) == [1, 2]
    commit(again, 3, {0: 2})
    commit(again, 4, {0: 2})
    assert kept(memory, 0) == [2]
