import pytest
import torch

from fedapp.bank import Bank, Row
from fedapp.files import write_tensors
from fedapp.versions import Versions, owner_name


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


def test_parts_come_in_the_order_asked_for_without_clients_that_have_none(bank):
    for client in (3, 1, 2):
        write(bank, client, float(client), round=1)
    bank.commit(1)
    write(bank, 2, 20.0, round=2)

    def values(**kind):
        rows = bank.parts([2, 7, 3], "encoder", **kind)
        return [(row.client, row.round, tree["w"].item()) for row, tree in rows]

    assert values() == [(2, 1, 2.0), (3, 1, 3.0)]
    assert values(fresh=True) == [(2, 2, 20.0), (3, 1, 3.0)]
    assert list(bank.parts([], "encoder")) == []


def test_one_row_is_read_at_a_time(bank, monkeypatch):
    for client in range(40):
        write(bank, client, 1.0, round=1)
    read = []
    part = Row.part
    monkeypatch.setattr(
        Row, "part", lambda row, name: read.append(row.client) or part(row, name)
    )
    for row, _ in bank.parts(range(40), "encoder", fresh=True):
        assert read == list(range(row.client + 1))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


def blank(path):
    path.write_bytes(bytes(path.stat().st_size))


def forget_notes(path):
    write_tensors(path, {"encoder": {"w": torch.ones(1)}, "head": {"b": torch.ones(1)}})


DAMAGE = {
    "cut off": cut,
    "a bit": flip,
    "zeros": blank,
    "text": lambda path: path.write_text("this is no tensor file at all"),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "no example count": forget_notes,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_torn_row_counts_as_never_seen_until_it_is_written_again(
    bank, tmp_path, caplog, damage
):
    for client in (5, 6, 7):
        write(bank, client, float(client), round=1)
    bank.commit(1)
    damage(tmp_path / "bank" / "000006" / "r000001-00.safetensors")

    found = [row.client for row, _ in bank.parts([5, 6, 7], "head")]
    assert found == bank.clients() == [5, 7]
    assert bank.read(6) is bank.read(6, fresh=True) is None
    assert bank.rounds == {5: 1, 7: 1}
    assert [r.getMessage()[:9] for r in caplog.records] == ["client 6:"]
    assert "never seen" in caplog.text

    bank.commit(2)
    write(bank, 6, 60.0, round=3)
    bank.commit(3)
    assert (read(bank, 6), read(bank, 5)) == ((60.0, 3), (5.0, 1))
    assert len(caplog.records) == 1


def test_a_torn_row_of_this_round_leaves_none_of_rounds_before(bank, tmp_path):
    write(bank, 6, 1.0, round=1)
    bank.commit(1)
    write(bank, 6, 2.0, round=2)
    cut(tmp_path / "bank" / "000006" / "r000002-00.safetensors")
    assert bank.read(6, fresh=True) is None
    assert bank.rounds == {}


def test_a_part_that_is_damaged_is_an_error_to_whoever_reads_the_row_itself(
    bank, tmp_path
):
    write(bank, 6, 1.0, round=1)
    bank.commit(1)
    row = bank.read(6)
    flip(row.file.path)
    with pytest.raises(ValueError, match=r"000006/r000001-00\.safetensors is damaged"):
        row.part("head")
    assert row.part("encoder")["w"].item() == 1.0


def test_only_clients_with_versions_to_delete_are_looked_at(bank, monkeypatch):
    for client in range(30):
        write(bank, client, 1.0, round=1)
    bank.commit(1, commits=[1])
    looked = []
    prune = Versions.prune
    monkeypatch.setattr(
        Versions,
        "prune",
        lambda self, owner, **kind: looked.append(owner) or prune(self, owner, **kind),
    )
    bank.commit(2, commits=[1, 2])
    assert looked == []
    write(bank, 3, 3.0, round=3)
    looked.clear()
    bank.commit(3, commits=[2, 3])
    assert looked == [owner_name(3)]


def test_a_version_goes_when_no_commit_needs_it_though_nobody_wrote(bank, tmp_path):
    def left():
        return sorted(f.name[:7] for f in (tmp_path / "bank").rglob("*.safetensors"))

    write(bank, 0, 1.0, round=1)
    bank.commit(1, commits=[1])
    write(bank, 0, 2.0, round=2)
    bank.commit(2, commits=[1, 2])
    assert left() == ["r000001", "r000002"]
    bank.commit(3, commits=[2, 3])
    assert left() == ["r000002"]


def test_a_resumed_bank_deletes_what_the_first_commits_no_longer_need(bank, tmp_path):
    write(bank, 0, 1.0, round=1)
    bank.commit(1, commits=[1])
    write(bank, 0, 2.0, round=2)
    bank.commit(2, commits=[1, 2])
    after = Bank(tmp_path / "bank")
    after.restore({0: 2}, committed=2)
    after.commit(3, commits=[2, 3])
    assert [file.name for file in (tmp_path / "bank").rglob("*.safetensors")] == [
        "r000002-00.safetensors"
    ]


def test_float16_halves_the_disk_and_comes_back_as_float32(bank, tmp_path):
    payload = {
        "encoder": {"w": torch.randn(50, 200), "steps": torch.tensor(3)},
        "head": {"weight": torch.randn(10, 200)},
    }
    bank.write(0, payload, num_examples=4, round=1)
    bank.write(1, payload, num_examples=4, round=1, precision="float16")

    def size(client):
        return (tmp_path / "bank" / owner_name(client)).glob("*").__next__().stat()

    full, half = size(0).st_size, size(1).st_size
    assert half < 0.52 * full
    for part, tree in payload.items():
        found = bank.read(1, fresh=True).part(part)
        assert found.keys() == tree.keys()
        for name, leaf in tree.items():
            assert found[name].dtype == leaf.dtype
            torch.testing.assert_close(found[name], leaf, rtol=2**-11, atol=2**-25)


def test_what_float16_cannot_hold_stays_float32_and_is_named(bank, caplog):
    payload = {"encoder": {"w": torch.tensor([1e6]), "v": torch.tensor([0.1])}}
    bank.write(8, payload, num_examples=1, round=1, precision="float16")
    found = bank.read(8, fresh=True).part("encoder")
    assert found["w"].item() == 1e6
    assert "client 8: encoder/w kept in float32" in caplog.text
    assert "encoder/v" not in caplog.text


def test_a_torn_row_asked_for_twice_is_left_out_twice(bank, tmp_path, caplog):
    write(bank, 6, 1.0, round=1)
    write(bank, 7, 2.0, round=1)
    bank.commit(1)
    cut(tmp_path / "bank" / "000006" / "r000001-00.safetensors")
    found = [row.client for row, _ in bank.parts([6, 7, 6, 7], "head")]
    assert found == [7, 7]
