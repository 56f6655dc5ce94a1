"""HDC-FL with sketches: what travels, who is asked, what is formed of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import line_task
from test_hdc_fl import COUNTS, ENCODERS, HEADS, INITIAL, strategy

from client_apps.hdc_fl import LocalHdcFl
from fedapp.algorithm import Update
from fedapp.config import SettingsError, defaults
from fedapp.hdc import finding, many
from fedapp.hdc.geometry import geometry_of
from fedapp.hdc.privacy import sigma_for
from fedapp.hdc.refresh_state import RAW, gate_of, groups_of
from fedapp.hdc.sketch import normal_numbers, sketch
from fedapp.methods import check_settings

ALL = (0, 1, 2, 3)
LENGTH = 5_000
"""So long that sketches are descriptors but for a few hundredths."""


def rule(**changes):
    return strategy(exchange="sketch", sketch_length=LENGTH, **changes)


def trained(clients=ALL) -> list[Update]:
    """Return the replies of a training phase."""
    initial = INITIAL["head.weight"].numpy()
    return [
        Update(
            {
                "encoder": {"w": torch.tensor([ENCODERS[k]])},
                "geometry": geometry_of(np.array(HEADS[k], np.float32), initial),
            },
            COUNTS[k],
            client=k,
        )
        for k in clients
    ]


def answers(directions, clients=ALL) -> list[Update]:
    """Return the replies to ``directions``."""
    found = {
        k: sketch(
            np.array(HEADS[k]), directions.double().numpy(), length=LENGTH, seed=0
        )
        for k in clients
    }
    return [
        Update({"sketch": {"numbers": torch.from_numpy(found[k]).float()}}, 1, client=k)
        for k in clients
    ]


def round_of(method, make_turn, asked=ALL, answering=ALL, **changes):
    """Return params, state and turn after both phases of a round."""
    turn = make_turn(**changes)
    params, state = method.init(INITIAL)
    params, state = method.update(params, state, trained(asked), turn)
    second = replace(turn, phase="sketch", step=1)
    tasks = list(method.tasks(params, state, second))
    if tasks:
        directions = tasks[0].payload["directions"]["weight"]
        replies = answers(directions, answering)
    else:
        replies = []
    params, state = method.update(params, state, replies, second)
    turn.bank.commit(turn.round)
    return params, state, turn, tasks


def personal(method, params, state, turn, clients=ALL):
    tasks = method.personal(params, state, clients, replace(turn, phase="evaluate"))
    return [task.payload["encoder"]["w"].item() for task in tasks]


def test_toy_round_gives_the_mixtures_of_the_heads(make_turn):
    method = rule()
    params, state, turn, _ = round_of(method, make_turn)
    got = personal(method, params, state, turn)

    assert groups_of(state).labels.tolist() == [0, 0, 1, 1]
    # The numbers of 23.11; a sketch of 5,000 misses a score by 0.014, so a membership
    # of temperature 0.5 by 0.014 p (1 - p) / 0.5 = 0.003, an encoder by 4.25 times
    # that: four deviations.
    assert got == pytest.approx([2.304313, 2.215233, 5.534767, 5.445687], abs=0.05)
    assert params["w"].item() == pytest.approx((10 + 60 + 100 + 140) / 80)


def test_mixtures_are_of_the_encoders_in_the_bank(make_turn):
    method = rule()
    params, state, turn, _ = round_of(method, make_turn)

    weights = groups_of(state).weights
    expected = weights @ [(10 * 1 + 30 * 2) / 40, (20 * 5 + 20 * 7) / 40]
    assert personal(method, params, state, turn) == pytest.approx(expected)


def test_sketches_are_asked_for_in_refresh_rounds_only(make_turn):
    method = rule(refresh_every=3)
    asked = {r: len(method.phases(make_turn(round=r))) for r in range(1, 11)}

    assert [r for r, phases in asked.items() if phases == 2] == [3, 6, 9, 10]
    assert strategy(refresh_every=1).phases(make_turn()) == ("train",)


def test_all_who_ever_trained_are_asked_and_no_other(make_turn):
    method = rule()
    turn = make_turn(num_clients=9)
    for update in trained():
        turn.bank.write(update.client, update.sent, num_examples=1, round=1)
    turn.bank.commit(1)
    *_, tasks = round_of(
        method, make_turn, asked=(0, 2), round=2, num_clients=9, sampled=(0, 2)
    )

    assert [task.client for task in tasks] == [0, 1, 2, 3]
    shape = tasks[0].payload["directions"]["weight"].shape
    assert shape == (3, 2)


def test_nothing_of_the_first_phase_is_kept_for_the_next_round(make_turn):
    _, state, *_ = round_of(rule(), make_turn)
    heads = strategy()
    _, other = heads.update(*heads.init(INITIAL), with_heads(), make_turn())

    assert state.keys() == other.keys() - {RAW}


def with_heads() -> list[Update]:
    return [
        replace(
            update,
            sent={
                "encoder": update.sent["encoder"],
                "head": {"weight": torch.tensor(HEADS[update.client])},
            },
        )
        for update in trained()
    ]


def test_a_client_that_does_not_answer_is_in_no_group(make_turn):
    method = rule()
    params, state, turn, _ = round_of(method, make_turn, answering=(0, 1, 2))

    assert groups_of(state).labels.tolist() == [0, 0, 1, -1]
    got = personal(method, params, state, turn)
    # Its encoder counts nowhere; it gets the mean of those that do.
    assert got[3] == pytest.approx((10 * 1 + 30 * 2 + 20 * 5) / 60)
    assert max(got[:3]) <= 5


def test_a_client_whose_row_is_damaged_before_its_sketch_comes_is_in_no_refresh(
    make_turn,
):
    method, turn = rule(), make_turn(num_clients=5)
    asked = [*trained(), replace(trained()[0], client=4)]
    params, state = method.update(*method.init(INITIAL), asked, turn)
    second = replace(turn, phase="sketch", step=1)
    (task, *_) = method.tasks(params, state, second)
    path = turn.bank.read(4, fresh=True).file.path
    path.write_bytes(path.read_bytes()[:-1])
    found = answers(task.payload["directions"]["weight"])
    found.append(replace(found[0], client=4))
    _, state = method.update(params, state, found, second)

    assert groups_of(state).clients == [0, 1, 2, 3]
    assert groups_of(state).labels.tolist() == [0, 0, 1, 1]


def test_sketches_of_many_clients_are_grouped_by_a_sample(run, monkeypatch):
    monkeypatch.setattr(many, "EXACT", 5)
    monkeypatch.setattr(finding, "EXACT", 5)
    done = run("hdc-fl", **SKETCH)

    methods = {row["method"] for row in done.rows("hdc-fl/refreshes.csv")}
    assert methods == {"sampled"}
    assert len({row["client"] for row in done.rows("hdc-fl/memberships.csv")}) == 5
    assert len(done.tensors("final/state.safetensors")["groups"]["clients"]) == 6


def test_three_clients_are_asked_for_nothing(make_turn):
    method = rule()
    params, state, turn, tasks = round_of(method, make_turn, asked=(0, 1, 2))

    assert tasks == []
    assert groups_of(state) is None
    assert personal(method, params, state, turn) == [params["w"].item()] * 4


def test_only_zero_sketches_leave_the_shared_encoder(make_turn):
    method = rule(activation="stable")
    turn = make_turn()
    params, state = method.update(*method.init(INITIAL), trained(), turn)
    zeros = {"numbers": torch.zeros(LENGTH)}
    replies = [Update({"sketch": zeros}, 1, client=k) for k in range(4)]
    params, state = method.update(
        params, state, replies, replace(turn, phase="sketch", step=1)
    )

    assert groups_of(state) is None
    assert gate_of(state).counter == 0


def test_noise_without_sketches_is_refused():
    with pytest.raises(
        SettingsError, match=r"hdc-fl\.epsilon = 8.*exchange = 'sketch'"
    ):
        check_settings(defaults() | {"hdc-fl.epsilon": 8.0})
    check_settings(defaults() | {"hdc-fl.epsilon": 8.0, "hdc-fl.exchange": "sketch"})


def answer_of(epsilon, **changes):
    """Return what a client sends in the sketch phase, eight numbers."""
    client = LocalHdcFl(exchange="sketch", sketch_length=8, epsilon=epsilon, delta=1e-5)
    received = {"directions": {"weight": torch.eye(3)[:, :2]}}
    task = line_task(
        [(1.0, 1.0)], phase="sketch", received=received, client=5, round=4, **changes
    )
    update, _ = client.train(task, {"head": {"weight": torch.tensor(HEADS[1])}})
    return update.sent["sketch"]["numbers"].double().numpy()


def test_a_client_adds_the_noise_that_was_asked_for():
    noise = normal_numbers(8, seed=0, client=5, round=4, simulated=True)
    expected = sigma_for(epsilon=8.0, delta=1e-5) * noise

    assert answer_of(8.0) - answer_of(0.0) == pytest.approx(expected, abs=1e-6)


def test_a_device_takes_noise_from_its_system():
    first, second = (answer_of(8.0, simulated=False) for _ in range(2))

    assert (first != second).all()
    same = answer_of(0.0, simulated=False)
    assert same == pytest.approx(answer_of(0.0))


def test_a_device_without_a_head_says_so():
    client = LocalHdcFl(exchange="sketch", sketch_length=8, epsilon=0.0, delta=1e-5)
    with pytest.raises(ValueError, match="no trained head"):
        client.train(line_task([(1.0, 1.0)], phase="sketch"), {})


EVERY_8 = ("rounds__count", "rounds__evaluate_every", "hdc-fl__refresh-every")
SKETCH = {"hdc-fl__exchange": "sketch", "hdc-fl__sketch-length": 64}
HEAD = 10 * (200 + 1)


def test_the_head_is_in_no_message_and_in_no_file_of_the_server(run):
    sketched, fedper = run("hdc-fl", **SKETCH), run("fedper")
    traffic = [done.summary["traffic"] for done in (sketched, fedper)]
    up, down = (traffic[0][way] - traffic[1][way] for way in ("up_bytes", "down_bytes"))

    ranks = [int(row["rank"]) for row in sketched.rows("hdc-fl/refreshes.csv")]
    clients, rounds = 6, 2
    # The Gram matrix and the move in float64, the sketch in float32.
    assert up == rounds * clients * (8 * 10 * 10 + 8 + 4 * 64)
    assert down == clients * sum(4 * 10 * rank for rank in ranks)
    assert up < rounds * clients * 4 * HEAD
    for file in (sketched.path / "bank").rglob("*.safetensors"):
        tensors = sketched.tensors(str(file.relative_to(sketched.path)))
        assert tensors.keys() == {"encoder", "geometry"}


def test_training_is_that_with_heads_bit_for_bit(run):
    found = [
        run("hdc-fl", **{"hdc-fl__activation": "always", **settings}).path
        for settings in ({}, SKETCH, {**SKETCH, "hdc-fl__epsilon": 8.0})
    ]
    for name in ("final/params.safetensors", "memory/000003/r000002-00.safetensors"):
        assert len({(path / name).read_bytes() for path in found}) == 1


def test_noisy_runs_have_the_same_bits(run):
    noisy = {**SKETCH, "hdc-fl__epsilon": 8.0}
    first, second = run("hdc-fl", **noisy).bits(), run("hdc-fl", **noisy).bits()

    assert first == second


def test_sketches_find_the_groups_that_heads_find(run):
    settings = {"data__clients": 8, "data__samples-per-client": 60, "local__lr": 0.1}
    settings |= dict.fromkeys(EVERY_8, 8)
    heads, sketched = run("hdc-fl", **settings), run("hdc-fl", **settings, **SKETCH)
    groups = [
        [
            (row["round"], row["client"], row["group"])
            for row in done.rows("hdc-fl/memberships.csv")
            if row["assigned"] == "True"
        ]
        for done in (heads, sketched)
    ]

    assert groups[0] == groups[1]
    assert [group for _, _, group in groups[0]] == list("01230123")
    for name in ("rank", "energy", "head_change", "spectral_gap"):
        first, second = (
            [row[name] for row in done.rows("hdc-fl/refreshes.csv")]
            for done in (heads, sketched)
        )
        assert first == second


@pytest.fixture
def broken(monkeypatch):
    """Let client 3 send something else than a sketch."""
    answer = LocalHdcFl._sketch

    def install(change):
        def sketched(self, task, memory):
            update = answer(self, task, memory)
            return change(update) if task.client == 3 else update

        monkeypatch.setattr(LocalHdcFl, "_sketch", sketched)

    return install


def nans(update):
    wrong = torch.full_like(update.sent["sketch"]["numbers"], float("nan"))
    return replace(update, sent={"sketch": {"numbers": wrong}})


def short(update):
    numbers = update.sent["sketch"]["numbers"][:-1]
    return replace(update, sent={"sketch": {"numbers": numbers}})


def away(update):
    raise OSError("the battery is empty")


@pytest.mark.parametrize(
    ("change", "cause"),
    [(nans, "not finite"), (short, "(63,)"), (away, "the battery is empty")],
)
def test_a_client_without_a_good_sketch_is_dropped_and_named(
    run, broken, change, cause
):
    broken(change)
    done = run("hdc-fl", **SKETCH, rounds__count=1, rounds__min_replies=0.5)
    (failure,) = done.summary["failures"]

    assert (failure["phase"], failure["client"]) == ("sketch", 3)
    assert cause in failure["cause"]
    assert done.summary["status"] == "completed"
    weights = [
        float(row["membership"])
        for row in done.rows("hdc-fl/memberships.csv")
        if row["client"] == "3"
    ]
    assert set(weights) == {0.0}
    # It trained in this round, though.
    (score,) = [row for row in done.rows("metrics.csv") if row["client"] == "3"]
    assert (score["trained"], score["last_trained_round"]) == ("true", "1")


def test_a_geometry_that_no_head_has_is_dropped_and_named(run, monkeypatch):
    def negative(head, initial):
        found = dict(geometry_of(head, initial))
        return {**found, "gram": -found["gram"]}

    monkeypatch.setattr("client_apps.hdc_fl.geometry_of", negative)
    with pytest.raises(RuntimeError, match="cannot have a squared norm"):
        run("hdc-fl", **SKETCH)


def test_a_sketch_is_no_training(run):
    """Half of the clients train in a round; all that ever did send a sketch."""
    done = run("hdc-fl", **SKETCH, rounds__count=3, rounds__fraction=0.67)
    asked = {r: set() for r in ("train", "sketch")}
    for row in done.rows("timing.csv"):
        if row["round"] == "3" and row["client"] and row["phase"] in asked:
            asked[row["phase"]].add(row["client"])
    last = {
        row["client"]: row["last_trained_round"]
        for row in done.rows("metrics.csv")
        if row["round"] == "3"
    }

    assert asked["train"] < asked["sketch"]
    assert {client for client, round_ in last.items() if round_ == "3"} == asked[
        "train"
    ]
