import json

import pytest
import torch

from fedapp.checkpoint import Checkpoints, Commit


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoint")


def commit(round_: int) -> Commit:
    return Commit(
        round=round_,
        params={"w": torch.tensor([float(round_)])},
        state={"gate": {"active": torch.tensor(True), "n": torch.tensor(3)}},
        bank={0: 1, 12: round_},
        held={0: (1, 0), 12: (round_, 2)},
        tables={"metrics.csv": 100 + round_},
        books={"traffic": {"train_up_bytes": 7}},
    )


def test_a_commit_comes_back_as_it_was(checkpoints):
    checkpoints.write(commit(4))
    found = checkpoints.latest()
    assert found.round == 4
    assert found.params["w"].item() == 4.0
    assert bool(found.state["gate"]["active"])
    assert found.state["gate"]["n"].dtype == torch.int64
    assert (found.bank, found.tables) == ({0: 1, 12: 4}, {"metrics.csv": 104})
    assert found.held == {0: (1, 0), 12: (4, 2)}
    assert found.books == {"traffic": {"train_up_bytes": 7}}


def test_the_last_two_are_kept(checkpoints):
    for round_ in (1, 2, 5):
        checkpoints.write(commit(round_))
    assert checkpoints.rounds() == [2, 5]
    names = {file.name[:7] for file in checkpoints.folder.iterdir()}
    assert names == {"r000002", "r000005"}


def test_no_commit_is_none(checkpoints):
    assert checkpoints.latest() is None


@pytest.mark.parametrize("end", ["-params.safetensors", "-state.safetensors", ".json"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "foreign"])
def test_a_torn_commit_falls_back_to_the_one_before_and_says_so(
    checkpoints, caplog, end, damage
):
    for round_ in (1, 2):
        checkpoints.write(commit(round_))
    file = checkpoints.folder / f"r000002{end}"
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-5])
    elif damage == "foreign":
        file.write_text('{"version": 99}')
    else:
        file.unlink()
    found = checkpoints.latest()
    assert (found.round, found.params["w"].item()) == (1, 1.0)
    if (end, damage) != (".json", "missing"):  # Without it there was no commit.
        assert "the commit of round 2 is not whole" in caplog.text
        assert "going on from round 1" in caplog.text
    assert checkpoints.rounds() == [1]


@pytest.mark.parametrize("end", ["-params.safetensors", "-state.safetensors"])
def test_a_flipped_bit_is_a_torn_commit(checkpoints, caplog, end):
    for round_ in (1, 2):
        checkpoints.write(commit(round_))
    file = checkpoints.folder / f"r000002{end}"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert checkpoints.latest().round == 1
    assert "is damaged" in caplog.text


def test_nothing_whole_is_an_error_that_names_each(checkpoints):
    for round_ in (1, 2):
        checkpoints.write(commit(round_))
        (checkpoints.folder / f"r00000{round_}-params.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"start a new run.*round 2.*round 1"):
        checkpoints.latest()
    assert checkpoints.rounds() == [1, 2]


def test_a_commit_under_another_rounds_name_is_not_whole(checkpoints):
    checkpoints.write(commit(1))
    facts = json.loads((checkpoints.folder / "r000001.json").read_text())
    (checkpoints.folder / "r000009.json").write_text(json.dumps(facts))
    assert checkpoints.latest().round == 1


def test_tensors_without_their_commit_do_not_count(checkpoints, monkeypatch):
    checkpoints.write(commit(1))

    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("fedapp.checkpoint.write_json", full)
    with pytest.raises(OSError, match="no space"):
        checkpoints.write(commit(2))
    assert checkpoints.latest().round == 1
