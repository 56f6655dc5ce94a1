import pytest
import torch

from fedapp.bank import Bank


@pytest.fixture
def bank(tmp_path):
    return Bank(tmp_path / "bank")


def write(bank, client, value, *, round, num_examples=1):
    payload = {"encoder": {"w": torch.tensor([value])}, "head": {"b": torch.zeros(2)}}
    bank.write(client, payload, num_examples=num_examples, round=round)


def read(bank, client, **kind):
    row = bank.read(client, **kind)
    return None if row is None else (row.part("encoder")["w"].item(), row.round)


def test_a_row_holds_client_examples_round_and_parts(bank):
    write(bank, 3, 1.5, round=2, num_examples=7)
    bank.commit(2)
    row = bank.read(3)
    assert (row.client, row.num_examples, row.round) == (3, 7, 2)
    assert list(row.part("head")) == ["b"]


def test_a_write_is_seen_fresh_at_once_and_by_others_after_the_commit(bank):
    write(bank, 3, 1.5, round=1)
    assert (read(bank, 3), read(bank, 3, fresh=True)) == (None, (1.5, 1))
    assert (bank.clients(), bank.clients(fresh=True)) == ([], [3])
    bank.commit(1)
    assert read(bank, 3) == (1.5, 1)
    assert bank.clients() == [3]


def test_a_row_replaced_in_a_round_is_read_in_its_old_version_until_the_commit(bank):
    write(bank, 0, 1.0, round=1)
    bank.commit(1)
    write(bank, 0, 4.0, round=4)
    write(bank, 0, 5.0, round=4)
    assert (read(bank, 0), read(bank, 0, fresh=True)) == ((1.0, 1), (5.0, 4))
    bank.commit(4)
    assert read(bank, 0) == read(bank, 0, fresh=True) == (5.0, 4)


def test_rows_of_clients_that_sit_out_stay(bank):
    write(bank, 10, 1.0, round=1)
    bank.commit(1)
    for round_ in (2, 3, 4):
        write(bank, 9, float(round_), round=round_)
        bank.commit(round_)
    assert read(bank, 10) == (1.0, 1)
    assert bank.clients() == [9, 10]


def test_the_round_of_every_row_is_known(bank):
    write(bank, 1, 1.0, round=1)
    write(bank, 0, 1.0, round=1)
    bank.commit(1)
    assert bank.rounds == {0: 1, 1: 1}
    write(bank, 0, 2.0, round=2)
    assert bank.rounds == {0: 2, 1: 1}


def test_what_a_stopped_round_wrote_is_forgotten(bank):
    write(bank, 0, 1.0, round=1)
    bank.commit(1)
    write(bank, 0, 2.0, round=2)
    bank.discard()
    bank.commit(2)
    assert read(bank, 0, fresh=True) == (1.0, 1)


def test_rows_that_a_commit_on_disk_needs_are_kept_and_others_are_not(bank, tmp_path):
    for round_ in range(1, 7):
        write(bank, 0, float(round_), round=round_)
        bank.commit(round_, commits=[r for r in (2, 4) if r <= round_])
    left = sorted(file.name[:7] for file in (tmp_path / "bank").rglob("*.safetensors"))
    assert left == ["r000002", "r000004", "r000006"]


def test_a_new_process_takes_up_what_was_committed_and_drops_the_rest(bank, tmp_path):
    write(bank, 0, 1.0, round=1)
    write(bank, 1, 2.0, round=1)
    bank.commit(1)
    write(bank, 1, 3.0, round=2)
    bank.commit(2)
    committed = bank.rounds
    write(bank, 1, -1.0, round=3)
    write(bank, 2, -1.0, round=3)

    after = Bank(tmp_path / "bank")
    after.restore(committed, committed=2)
    assert after.clients(fresh=True) == [0, 1]
    assert (read(after, 0), read(after, 1)) == ((1.0, 1), (3.0, 2))
    left = [file.name for file in (tmp_path / "bank").rglob("*.safetensors")]
    assert not any(name.startswith("r000003") for name in left)


def test_restoring_nothing_drops_everything(bank, tmp_path):
    write(bank, 0, 1.0, round=1)
    bank.restore({}, committed=0)
    assert bank.clients(fresh=True) == []
    assert list((tmp_path / "bank").rglob("*.safetensors")) == []


def test_what_a_stopped_round_wrote_pushes_out_no_row_in_force(tmp_path):
    bank = Bank(tmp_path)
    for round_, keep in [(1, True), (2, False), (3, False)]:
        payload = {"m": {"w": torch.tensor([float(round_)])}}
        bank.write(0, payload, num_examples=1, round=round_)
        if keep:
            bank.commit(round_)
        else:
            bank.discard()
    bank.write(0, payload, num_examples=1, round=4)
    assert bank.read(0).part("m")["w"].item() == 1.0
    assert [file.name for file in sorted(tmp_path.rglob("*.safetensors"))] == [
        "r000001-00.safetensors",
        "r000004-00.safetensors",
    ]
