"""HDC-FL as a whole; its mathematics is tested in tests/fedapp."""

from dataclasses import replace

import pytest
import torch

from fedapp.algorithm import Update
from fedapp.config import Scalar, build, defaults
from fedapp.hdc.refresh_state import gate_of, groups_of
from strategies.hdc_fl import HdcFl

HEADS = {
    0: [[2.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]],
    1: [[2.0, 0.2], [-1.0, -0.2], [-1.0, 0.0]],
    2: [[0.0, -1.0], [0.0, 2.0], [0.0, -1.0]],
    3: [[0.2, -1.0], [-0.2, 2.0], [0.0, -1.0]],
}
COUNTS = {0: 10, 1: 30, 2: 20, 3: 20}
ENCODERS = {0: 1.0, 1: 2.0, 2: 5.0, 3: 7.0}
INITIAL = {
    "encoder.w": torch.zeros(1),
    "head.weight": torch.full((3, 2), 0.1),
    "head.bias": torch.zeros(3),
}


def strategy(**changes: Scalar) -> HdcFl:
    start = "hdc-fl."
    table = {
        name.removeprefix(start).replace("-", "_"): value
        for name, value in defaults().items()
        if name.startswith(start)
    }
    settings = {"refresh_every": 1, "temperature": 0.5, "activation": "always"}
    return build(HdcFl, {**table, **settings, **changes})


def updates(order=(0, 1, 2, 3)) -> list[Update]:
    return [
        Update(
            {
                "encoder": {"w": torch.tensor([ENCODERS[k]])},
                "head": {"weight": torch.tensor(HEADS[k]), "bias": torch.zeros(3)},
            },
            COUNTS[k],
            client=k,
        )
        for k in order
    ]


def personal(rule, make_turn, clients=(0, 1, 2, 3)):
    """Return the encoders clients get after one round, and params and state."""
    turn = make_turn()
    params, state = rule.init(INITIAL)
    params, state = rule.update(params, state, updates(), turn)
    turn.bank.commit(turn.round)
    evaluation = replace(turn, phase="evaluate")
    tasks = list(rule.personal(params, state, clients, evaluation))
    return [t.payload["encoder"]["w"].item() for t in tasks], tasks, params, state


def test_toy_round_gives_the_specified_mixtures(make_turn):
    got, _, params, _ = personal(strategy(), make_turn)
    assert got == pytest.approx([2.304313, 2.215233, 5.534767, 5.445687], abs=1e-5)
    assert params["w"].item() == pytest.approx((10 + 60 + 100 + 140) / 80)


def test_half_mix_gives_the_specified_mixtures(make_turn):
    got, *_ = personal(strategy(mix=0.5), make_turn)
    assert got == pytest.approx([1.652156, 2.107617, 5.267383, 6.222844], abs=1e-5)


def test_no_mix_is_the_own_encoder(make_turn):
    got, *_ = personal(strategy(mix=0.0), make_turn)
    assert got == list(ENCODERS.values())


def test_one_group_is_the_population_prototype(make_turn):
    got, *_ = personal(strategy(max_groups=1), make_turn)
    assert got == pytest.approx([3.875] * 4)


def test_old_entries_leave_prototypes_but_not_groups(make_turn):
    rule = strategy(max_age=1)
    turn = make_turn(round=1)
    params, state = rule.init(INITIAL)
    params, state = rule.update(params, state, updates(), turn)
    turn.bank.commit(turn.round)
    later = replace(turn, round=3)
    params, state = rule.update(params, state, updates((0, 2)), later)
    turn.bank.commit(turn.round)
    evaluation = replace(later, phase="evaluate")
    groups = groups_of(state)
    assert groups.clients == [0, 1, 2, 3]
    weights = groups.weights
    tasks = list(rule.personal(params, state, range(4), evaluation))
    # Only clients 0 and 2 count: the prototypes are their encoders.
    expected = [row[0] * 1.0 + row[1] * 5.0 for row in weights]
    got = [t.payload["encoder"]["w"].item() for t in tasks]
    assert got == pytest.approx(expected)


def test_a_client_without_an_entry_gets_the_shared_encoder(make_turn):
    got, tasks, params, _ = personal(strategy(), make_turn, clients=(1, 9))
    assert got[1] == params["w"].item()
    assert [t.scalars["personalised"] for t in tasks] == [True, False]


def test_inactive_means_the_shared_encoder_for_all(make_turn):
    got, tasks, params, state = personal(strategy(activation="stable"), make_turn)
    assert got == [params["w"].item()] * 4
    assert not any(t.scalars["personalised"] for t in tasks)
    assert gate_of(state).active is False


def test_the_last_round_is_forced(make_turn):
    rule = strategy(activation="stable")
    turn = make_turn(round=10)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    tasks = list(rule.personal(params, state, [0], turn))
    assert tasks[0].scalars["personalised"]
    calm = strategy(activation="stable", force_final=False)
    tasks = list(calm.personal(params, state, [0], turn))
    assert not tasks[0].scalars["personalised"]


def test_stable_refreshes_activate(make_turn):
    rule = strategy(activation="stable")
    params, state = rule.init(INITIAL)
    active = []
    for round_ in (1, 2, 3):
        turn = make_turn(round=round_)
        params, state = rule.update(params, state, updates(), turn)
        turn.bank.commit(turn.round)
        active.append(gate_of(state).active)
    # The first refresh has nothing to compare with; m = 2 stable ones follow.
    assert active == [False, False, True]


def test_heads_near_their_start_never_activate(make_turn):
    rule = strategy(activation="stable", min_head_change=1e9)
    params, state = rule.init(INITIAL)
    for round_ in (1, 2, 3, 4):
        turn = make_turn(round=round_)
        params, state = rule.update(params, state, updates(), turn)
        turn.bank.commit(turn.round)
    assert not gate_of(state).active
    assert gate_of(state).counter == 0


def test_three_clients_are_not_grouped(make_turn):
    rule = strategy()
    params, state = rule.update(*rule.init(INITIAL), updates((0, 1, 2)), make_turn())
    assert groups_of(state) is None
    (task,) = rule.personal(params, state, [0], make_turn())
    assert task.scalars["personalised"] is False


def test_rows_between_refreshes_are_the_present_ones(make_turn):
    rule = strategy(refresh_every=5)
    turn = make_turn(round=5)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    turn.bank.commit(turn.round)
    later = make_turn(round=6)
    moved = [
        replace(u, sent={**u.sent, "encoder": {"w": u.sent["encoder"]["w"] + 1}})
        for u in updates()
    ]
    params, after = rule.update(params, state, moved, later)
    assert after is state
    got = [
        t.payload["encoder"]["w"].item()
        for t in rule.personal(params, after, range(4), later)
    ]
    assert got == pytest.approx([3.304313, 3.215233, 6.534767, 6.445687], abs=1e-5)


def test_training_is_fedper_bit_for_bit_whatever_is_evaluated(run):
    settings = {"rounds__count": 4, "rounds__fraction": 0.67}
    on = run("hdc-fl", **settings, **{"hdc-fl__activation": "always"})
    off = run(
        "hdc-fl",
        **settings,
        **{"hdc-fl__force-final": False, "hdc-fl__min-head-change": 1e9},
    )
    fedper = run("fedper", **settings)
    same = [
        {k: v for k, v in done.bits().items() if k.startswith(("bank", "memory"))}
        for done in (on, off)
    ]
    assert same[0] == same[1]
    heads = [
        {k: v for k, v in done.bits().items() if k.startswith("memory")}
        for done in (on, off, fedper)
    ]
    assert heads[0] == heads[1] == heads[2]
    encoders = [
        (done.path / "final/params.safetensors").read_bytes()
        for done in (on, off, fedper)
    ]
    assert encoders[0] == encoders[1] == encoders[2]
    assert on.rows("metrics.csv") != off.rows("metrics.csv")


def test_the_head_adds_its_own_bytes_to_traffic(run):
    hdc, fedper = run("hdc-fl"), run("fedper")
    head = 4 * 10 * (200 + 1)
    up = [done.summary["traffic"]["up_bytes"] for done in (hdc, fedper)]
    down = [done.summary["traffic"]["down_bytes"] for done in (hdc, fedper)]
    assert up[0] - up[1] == 2 * 6 * head
    assert down[0] == down[1]


def test_tables_have_the_promised_columns(run):
    done = run("hdc-fl")
    first = done.rows("hdc-fl/refreshes.csv")[0]
    promised = ["round", "groups", "rank", "energy", "silhouette", "ari_previous"]
    promised += ["descriptor_change", "stable", "active", "ari_latent"]
    assert list(first)[: len(promised)] == promised
    sums: dict[tuple[str, str], float] = {}
    for row in done.rows("hdc-fl/memberships.csv"):
        key = (row["round"], row["client"])
        sums[key] = sums.get(key, 0.0) + float(row["membership"])
    assert len(sums) == 2 * 6
    assert list(sums.values()) == pytest.approx([1.0] * 12)
