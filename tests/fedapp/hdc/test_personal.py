"""Personal encoders from the bank: what is read, and what damage does."""

import numpy as np
import pytest
import torch

from fedapp.bank import Bank, Row
from fedapp.hdc.bank_rows import bank_heads
from fedapp.hdc.personal import mixtures
from fedapp.hdc.refresh import Groups

# Scalar encoders of the toy of 23.11, test 3, and its memberships at tau = 0.5.
SCALARS = (1.0, 2.0, 5.0, 7.0)
COUNTS = (10, 30, 20, 20)
SOFT = [[0.869573, 0.130427], [0.890533, 0.109467]]
SOFT += [[0.109467, 0.890533], [0.130427, 0.869573]]


@pytest.fixture
def bank(tmp_path):
    bank = Bank(tmp_path)
    for client, (value, count) in enumerate(zip(SCALARS, COUNTS, strict=True)):
        write(bank, client, value, count, round=1 + client)
    bank.commit(4)
    return bank


def write(bank, client, value, count=1, *, round=1):
    payload = {
        "encoder": {"w": torch.tensor([value])},
        "head": {"weight": torch.tensor([[value, 0.0]])},
    }
    bank.write(client, payload, num_examples=count, round=round)


@pytest.fixture
def read(monkeypatch):
    """The clients whose encoder is read, in order."""
    found = []
    part = Row.part
    monkeypatch.setattr(
        Row, "part", lambda row, name: found.append(row.client) or part(row, name)
    )
    return found


def groups(labels=(0, 0, 1, 1), soft=SOFT):
    return Groups(range(len(labels)), np.array(labels), np.array(soft), (0, 1))


SHARED = {"w": torch.tensor([11.0])}


def made(bank, found=None, *, late=None, mix=1.0, since=0):
    return mixtures(
        bank,
        found or groups(),
        late or {},
        SHARED,
        mix=mix,
        since=since,
        moments=False,
    )


def values(found, clients=(0, 1, 2, 3)):
    return [found.encoder(client)["w"].item() for client in clients]


def spoil(bank, client):
    path = bank.read(client).file.path
    whole = bytearray(path.read_bytes())
    whole[bank.read(client).file.span("encoder")[0]] ^= 1
    path.write_bytes(whole)


def test_the_mixtures_are_those_of_the_specification(bank):
    soft = [2.304313, 2.215233, 5.534767, 5.445687]
    half = [1.652156, 2.107617, 5.267383, 6.222844]

    assert values(made(bank)) == pytest.approx(soft, abs=1e-5)
    assert values(made(bank, mix=0.5)) == pytest.approx(half, abs=1e-5)
    assert values(made(bank, mix=0.0)) == list(SCALARS)


@pytest.mark.parametrize(
    ("mix", "reads"),
    [
        (1.0, [0, 1, 2, 3]),
        (0.5, [0, 1, 2, 3, 3, 0]),
        (0.0, [3, 0]),
    ],
)
def test_what_has_no_weight_is_not_read(bank, read, mix, reads):
    values(made(bank, mix=mix), clients=(3, 0))
    assert read == reads


def test_clients_in_no_group_and_old_entries_are_not_read(bank, read):
    found = made(bank, groups(labels=(0, -1, 1, 1)), since=2)

    # Client 0 wrote in round 1: what is left of its group is nothing.
    assert read == [2, 3]
    assert values(found) == [6.0] * 4


def test_a_client_that_is_in_no_refresh_has_none(bank):
    assert made(bank).encoder(9) is None


@pytest.mark.parametrize("mix", [1.0, 0.5, 0.0])
def test_who_came_late_is_mixed_by_its_memberships_and_its_own_encoder(bank, mix):
    write(bank, 7, 3.0, round=5)
    late = {7: np.array([0.25, 0.75]), 8: np.array([1.0, 0.0])}
    found = made(bank, late=late, mix=mix)

    # 7 has trained since the refresh; 8 never has, and the shared encoder is its own.
    wanted = [mix * (0.25 * 1.75 + 0.75 * 6.0) + (1 - mix) * 3.0]
    wanted.append(mix * 1.75 + (1 - mix) * 11.0)
    assert values(found, [7, 8]) == pytest.approx(wanted)
    # Both are in no prototype.
    assert values(found) == values(made(bank, mix=mix))


@pytest.mark.parametrize("mix", [1.0, 0.5, 0.0])
def test_a_damaged_row_counts_as_never_seen(bank, caplog, mix):
    spoil(bank, 1)
    found = made(bank, mix=mix)

    assert found.encoder(1) is None
    assert "client 1" in caplog.text
    assert bank.clients() == [0, 2, 3]
    mean = [p * 1.0 + q * 6.0 for p, q in SOFT]
    for client in (0, 2, 3):
        wanted = mix * mean[client] + (1 - mix) * SCALARS[client]
        assert values(found, [client])[0] == pytest.approx(wanted, abs=1e-5)


def test_without_an_entry_that_counts_nobody_has_one(bank):
    assert made(bank, since=9) is None


def test_one_encoder_per_group_is_kept_whatever_the_number_of_clients(tmp_path):
    bank = Bank(tmp_path)
    for client in range(30):
        write(bank, client, float(client))
    soft = np.tile([0.25, 0.75], (30, 1))
    found = made(bank, Groups(range(30), np.arange(30) % 2, soft, (0, 1)))

    assert [p["w"].item() for p in found.prototypes] == [14, 15]
    assert values(found, [7]) == [0.25 * 14 + 0.75 * 15]


def test_heads_of_damaged_rows_are_left_out_of_a_refresh(bank, caplog):
    path = bank.read(2).file.path
    path.write_bytes(path.read_bytes()[:-1])
    heads = bank_heads(bank)

    assert heads.clients == [0, 1, 3]
    assert [head[0, 0] for head in heads.each()] == [1.0, 2.0, 7.0]
    assert "client 2" in caplog.text
