"""HDC-FL with many clients, damaged rows, and a bank in half precision."""

import csv
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedapp.algorithm import Update
from fedapp.config import build, defaults
from fedapp.hdc import finding, many
from fedapp.hdc.refresh_state import groups_of
from fedapp.params import num_bytes
from strategies.hdc_fl import HdcFl

SHAPE = (4, 6)
SIZE = 500
INITIAL = {
    "encoder.w": torch.zeros(SIZE),
    "encoder.bn.running_var": torch.ones(3),
    "encoder.bn.running_mean": torch.zeros(3),
    "head.weight": torch.full(SHAPE, 0.1),
}


def strategy(**changes):
    start = "hdc-fl."
    table = {
        name.removeprefix(start).replace("-", "_"): value
        for name, value in defaults().items()
        if name.startswith(start)
    }
    settings = {"refresh_every": 1, "activation": "always"}
    return build(HdcFl, {**table, **settings, **changes})


def updates(clients):
    """Clients of three groups, by their number modulo 3."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, *SHAPE))
    for client in range(clients):
        head = centres[client % 3] + 0.3 * rng.standard_normal(SHAPE)
        encoder = {
            "w": torch.from_numpy(rng.standard_normal(SIZE)).float(),
            "bn.running_var": torch.tensor([1e-7, 1e-3, 1.0]) * (1 + client % 5),
            "bn.running_mean": torch.tensor([1e-7, 0.5, -2.0]),
        }
        head = {"weight": torch.from_numpy(head).float()}
        sent = {"encoder": encoder, "head": head}
        yield Update(sent, 1 + client % 4, client=client)


def played(rule, make_turn, clients, **changes):
    """Return the turn of an evaluation after one round, and params and state."""
    turn = make_turn(num_clients=clients, **changes)
    params, state = rule.update(*rule.init(INITIAL), updates(clients), turn)
    turn.bank.commit(turn.round)
    return replace(turn, phase="evaluate"), params, state


def spoil(turn, *clients):
    for client in clients:
        path = turn.bank.read(client).file.path
        path.write_bytes(path.read_bytes()[:-3])


def test_a_torn_row_costs_one_client_its_mixture_and_nobody_the_run(make_turn, caplog):
    rule = strategy()
    turn, params, state = played(rule, make_turn, 12)
    spoil(turn, 5)
    tasks = list(rule.personal(params, state, range(12), turn))

    personalised = [task.scalars["personalised"] for task in tasks]
    assert personalised == [client != 5 for client in range(12)]
    assert torch.equal(tasks[5].payload["encoder"]["w"], params["w"])
    assert "client 5: its row of the bank cannot be used" in caplog.text

    # The next refresh goes without it, the one after its next reply has it again.
    later = replace(turn, round=2, phase="train")
    _, without = rule.update(params, state, list(updates(12))[:2], later)
    assert groups_of(without).clients == [k for k in range(12) if k != 5]
    turn.bank.commit(2)
    again = replace(turn, round=3, phase="train")
    _, whole = rule.update(params, without, list(updates(12))[5:6], again)
    assert groups_of(whole).clients == list(range(12))


def test_too_few_whole_rows_are_no_groups(make_turn):
    rule = strategy()
    turn, params, state = played(rule, make_turn, 5)
    spoil(turn, 2, 3)
    later = replace(turn, round=2, phase="train")
    _, after = rule.update(params, state, list(updates(5))[:1], later)

    assert groups_of(after).clients == groups_of(state).clients
    assert len(turn.bank.clients(fresh=True)) == 3


@pytest.mark.parametrize(
    ("clients", "method", "listed"), [(30, "exact", 30), (90, "sampled", 40)]
)
def test_tables_say_how_groups_were_found_and_stay_short(
    make_turn, monkeypatch, clients, method, listed
):
    monkeypatch.setattr(many, "EXACT", 40)
    monkeypatch.setattr(finding, "EXACT", 40)
    rows = defaultdict(list)
    latent = [client % 3 for client in range(clients)]
    _, _, state = played(
        strategy(),
        make_turn,
        clients,
        log=lambda table, row: rows[table].append(row),
        groups=latent,
    )

    (refresh,) = rows["hdc-fl/refreshes.csv"]
    assert (refresh["method"], refresh["groups"]) == (method, 3)
    assert refresh["ari_latent"] == 1.0
    written = {row["client"] for row in rows["hdc-fl/memberships.csv"]}
    assert len(written) == listed
    assert len(rows["hdc-fl/memberships.csv"]) == 3 * listed
    assert {row["client"] for row in rows["hdc-fl/ages.csv"]} == written
    assert len(rows["hdc-fl/ages.csv"]) == listed
    # What the table leaves out is in the state.
    assert groups_of(state).weights.shape == (clients, 3)


def test_half_precision_halves_the_bank_and_hardly_moves_an_encoder(
    make_turn, tmp_path
):
    found, sizes = {}, {}
    for precision in ("float32", "float16"):
        rule = strategy(bank_precision=precision)
        turn, params, state = played(rule, make_turn, 9)
        rows = (tmp_path / "bank").rglob("*.safetensors")
        sizes[precision] = sum(row.stat().st_size for row in rows)
        tasks = rule.personal(params, state, range(9), turn)
        found[precision] = [task.payload["encoder"] for task in tasks]
        assert all(e["w"].dtype == torch.float32 for e in found[precision])

    tensors = 9 * num_bytes({"all": INITIAL})
    assert sizes["float32"] - sizes["float16"] == pytest.approx(tensors / 2, rel=0.05)
    # A mean of numbers that are each off by at most 2^-11; heads moved memberships
    # by about as much.
    largest = max(float(u.sent["encoder"]["w"].abs().max()) for u in updates(9))
    for wide, half in zip(found["float32"], found["float16"], strict=True):
        assert (wide["w"] - half["w"]).abs().max() < 2 * largest * 2**-11
        assert not torch.equal(wide["w"], half["w"])
        for name in ("bn.running_var", "bn.running_mean"):
            torch.testing.assert_close(half[name], wide[name], rtol=1e-3, atol=0)


def test_a_run_in_half_precision_trains_the_same_and_takes_half_the_room(run):
    wide = run("hdc-fl", rounds__fraction=0.67)
    half = run("hdc-fl", rounds__fraction=0.67, **{"hdc-fl__bank-precision": "float16"})

    def room(done):
        files = done.path.glob("bank/*/*.safetensors")
        return sum(file.stat().st_size for file in files)

    assert room(half) < 0.51 * room(wide)
    name = "final/params.safetensors"
    assert (half.path / name).read_bytes() == (wide.path / name).read_bytes()
    losses = [
        [
            float(row["loss"])
            for row in csv.DictReader((done.path / "metrics.csv").open())
        ]
        for done in (wide, half)
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_run_with_a_sample_works_as_a_whole_and_gives_the_same_bits(run, monkeypatch):
    monkeypatch.setattr(many, "EXACT", 5)
    monkeypatch.setattr(finding, "EXACT", 5)
    done, again = (run("hdc-fl", rounds__count=3, name=name) for name in ("a", "b"))

    methods = [row["method"] for row in done.rows("hdc-fl/refreshes.csv")]
    assert methods == ["sampled"] * 3
    assert done.rows("hdc-fl/refreshes.csv")[2]["descriptor_change"] != ""
    state = done.tensors("final/state.safetensors")
    assert len(state["snapshot"]["sampled"]) == 5
    assert len(state["groups"]["clients"]) == 6
    assert len({row["client"] for row in done.rows("hdc-fl/memberships.csv")}) == 5
    assert done.bits() == again.bits()
