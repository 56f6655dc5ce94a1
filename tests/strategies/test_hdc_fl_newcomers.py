"""HDC-FL's clients without an entry: what they are asked, and what they are given."""

from dataclasses import replace

import pytest
import torch
from conftest import line_model, line_task
from test_hdc_fl import HEADS, INITIAL, personal, strategy, updates

from client_apps.hdc_fl import LocalHdcFl
from fedapp.algorithm import Update, local_sgd
from fedapp.config import SettingsError, defaults
from fedapp.hdc.newcomers import PHASE
from fedapp.methods import check_settings
from fedapp.models import state_of
from fedapp.params import select

ON = {"newcomer_epochs": 5}
CLIENT = LocalHdcFl(exchange="heads", sketch_length=64, epsilon=0.0, delta=1e-5)


def answers(**heads) -> list[Update]:
    """Return what newcomers send: client number (after a letter) and head."""
    return [
        Update(
            {"head": {"weight": torch.tensor(head), "bias": torch.zeros(3)}},
            40,
            client=int(name[1:]),
        )
        for name, head in heads.items()
    ]


def after_welcome(rule, make_turn, heads):
    """Return encoders after one round and its newcomers' phase, tasks and params."""
    turn = make_turn(num_clients=7)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    before = dict(params)
    params, state = rule.update(
        params, state, answers(**heads), replace(turn, phase=PHASE, step=1)
    )
    assert params == before
    turn.bank.commit(turn.round)
    evaluation = replace(turn, phase="evaluate")
    tasks = list(rule.personal(params, state, range(7), evaluation))
    got = [t.payload["encoder"]["w"].item() for t in tasks]
    return got, tasks, params["w"].item()


def test_a_newcomer_with_a_members_head_gets_the_members_mixture(make_turn):
    heads = {"c4": HEADS[0], "c5": HEADS[3]}
    got, tasks, shared = after_welcome(strategy(**ON), make_turn, heads)
    # The specification's numbers for clients 1 and 4 (here 0 and 3), tau 0.5.
    assert got[4:6] == pytest.approx([2.304313, 5.445687], abs=1e-5)
    assert got[6] == shared
    flags = [bool(task.scalars["personalised"]) for task in tasks]
    assert flags == [True] * 6 + [False]


def test_the_others_get_what_they_get_without_newcomers(make_turn, tmp_path):
    alone, *_ = personal(strategy(), make_turn)
    got, *_ = after_welcome(strategy(**ON), make_turn, {"c4": HEADS[2]})
    assert got[:4] == alone


def test_the_shared_encoder_stands_for_the_own_one_of_a_newcomer(make_turn):
    heads = {"c4": HEADS[0]}
    got, _, shared = after_welcome(strategy(mix=0.5, **ON), make_turn, heads)
    assert got[4] == pytest.approx(0.5 * 2.304313 + 0.5 * shared, abs=1e-5)


def test_a_newcomer_without_a_direction_gets_the_population_prototype(make_turn):
    heads = {"c4": [[0.0, 0.0]] * 3}
    got, *_ = after_welcome(strategy(**ON), make_turn, heads)
    assert got[4] == pytest.approx(3.875)


def test_newcomers_are_forgotten_when_the_next_round_trains(make_turn):
    rule, turn = strategy(**ON), make_turn(num_clients=5)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    welcome = replace(turn, phase=PHASE)
    params, state = rule.update(params, state, answers(c4=HEADS[0]), welcome)
    assert PHASE in state
    later = replace(turn, round=2)
    assert PHASE not in rule.update(params, state, updates(), later)[1]


def test_who_trained_since_the_last_refresh_is_placed_by_its_entry(make_turn):
    rule = strategy(refresh_every=5, mix=0.5, **ON)
    turn = make_turn(round=5, num_clients=5)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    turn.bank.commit(5)
    later = replace(turn, round=6)
    (fresh,) = (u for u in updates() if u.client == 1)
    late = replace(
        fresh, client=4, sent={**fresh.sent, "encoder": {"w": torch.ones(1)}}
    )
    params, state = rule.update(params, state, [late], later)
    turn.bank.commit(6)
    (task,) = rule.personal(params, state, [4], later)
    # Client 2 of the specification (here 1) at tau 0.5, and the late one's own encoder.
    expected = 0.5 * 2.215233 + 0.5 * 1.0
    assert task.payload["encoder"]["w"].item() == pytest.approx(expected, abs=1e-5)
    # It was in no group, so no prototype has its encoder.
    (same,) = rule.personal(params, state, [1], later)
    assert same.payload["encoder"]["w"].item() == pytest.approx(2.107617, abs=1e-5)


def test_entries_that_are_all_too_old_leave_the_shared_encoder(make_turn):
    rule = strategy(refresh_every=5, max_age=1)
    turn = make_turn(round=5, num_clients=5)
    params, state = rule.update(*rule.init(INITIAL), updates(), turn)
    turn.bank.commit(5)
    later = replace(turn, round=7)
    params, state = rule.update(params, state, [replace(updates()[0], client=4)], later)
    tasks = list(rule.personal(params, state, range(5), later))
    assert [t.payload["encoder"]["w"].item() for t in tasks] == [params["w"].item()] * 5
    assert not any(t.scalars["personalised"] for t in tasks)


@pytest.mark.parametrize(
    ("settings", "round_", "known", "expected"),
    [
        ({}, 6, 3, ("train",)),
        (ON, 6, 3, ("train", PHASE)),
        (ON, 5, 3, ("train",)),
        (ON, 10, 3, ("train", PHASE)),
        (ON, 6, 4, ("train",)),
    ],
)
def test_newcomers_are_asked_before_evaluations_while_there_are_some(
    make_turn, settings, round_, known, expected
):
    rule = strategy(**settings)
    rule.evaluate_every = 3
    turn = make_turn(round=round_, rounds=10, num_clients=4)
    for update in updates()[:known]:
        turn.bank.write(update.client, update.sent, num_examples=1, round=1)
    turn.bank.commit(1)
    assert rule.phases(turn) == expected


def test_those_without_an_entry_get_the_encoder_and_their_epochs(make_turn):
    rule = strategy(newcomer_epochs=5, newcomer_alone_epochs=8)
    turn = make_turn(num_clients=7, round=9, rounds=10)
    params, state = rule.update(*rule.init(INITIAL), updates((0, 2, 3)), turn)
    for round_, alone in ((9, 0), (10, 8)):
        welcome = replace(turn, phase=PHASE, round=round_)
        tasks = list(rule.tasks(params, state, welcome))
        assert [task.client for task in tasks] == [1, 4, 5, 6]
        for task in tasks:
            assert task.payload == {"encoder": params}
            assert task.scalars == {"epochs": 5, "alone-epochs": alone}
        assert set(rule.expects(params, state, welcome)) == {"head"}
        assert not rule.trains(welcome)
    assert rule.trains(turn)


def test_a_client_that_trained_is_no_newcomer_though_its_row_is_gone(make_turn):
    rule = strategy(**ON)
    turn = make_turn(num_clients=6, last_trained={3: 1, 5: 1})
    rule.update(*rule.init(INITIAL), updates((0, 1, 2)), turn)
    assert rule.participants({}, replace(turn, phase=PHASE)) == [4]


def test_comparing_newcomers_without_any_is_an_error():
    given = defaults() | {"hdc-fl.newcomer-alone-epochs": 3}
    with pytest.raises(
        SettingsError, match=r"newcomer-alone-epochs = 3: .*newcomer-epochs"
    ):
        check_settings(given)
    check_settings(given | {"hdc-fl.newcomer-epochs": 2})


def test_newcomers_are_refused_where_heads_stay_with_their_clients():
    given = defaults() | {"hdc-fl.newcomer-epochs": 2}
    with pytest.raises(
        SettingsError, match=r"newcomer-epochs = 2: .*exchange = 'sketch' heads stay"
    ):
        check_settings(given | {"hdc-fl.exchange": "sketch"})
    check_settings(given)


POINTS = [(1.0, 2.0), (-0.5, 1.0)]


def welcome_task(**changes):
    scalars = {"epochs": 3, "alone-epochs": 0} | changes.pop("scalars", {})
    received = {"encoder": {"weight": torch.tensor([[2.0]])}}
    return line_task(POINTS, phase=PHASE, received=received, scalars=scalars, **changes)


def test_a_newcomer_fits_its_head_alone():
    task = welcome_task()
    update, memory = CLIENT.train(task, {})
    # y = head * 2 * x, head from 1, rate 0.1: the mean gradient over both points.
    head = 1.0
    for _ in range(3):
        head -= 0.1 * sum((head * 2 * x - y) * 2 * x for x, y in POINTS) / 2
    assert update.sent["head"]["weight"].item() == pytest.approx(head, rel=1e-6)
    assert set(update.sent) == {"head"}
    assert select(state_of(task.model), "encoder")["weight"].item() == 2.0
    assert set(memory) == {"fitted-head"}


def test_every_fit_and_the_first_training_start_from_the_common_head():
    model = line_model()
    first, memory = CLIENT.train(welcome_task(model=model), {})
    second, again = CLIENT.train(
        welcome_task(model=model, initial=state_of(line_model())), memory
    )
    torch.testing.assert_close(second.sent, first.sent, rtol=0, atol=0)
    received = {"encoder": {"weight": torch.tensor([[2.0]])}}
    plain, _ = CLIENT.train(line_task(POINTS, received=received), {})
    later, after = CLIENT.train(line_task(POINTS, received=received), again)
    torch.testing.assert_close(later.sent, plain.sent, rtol=0, atol=0)
    assert set(after) == {"head"}


def test_what_a_newcomer_is_scored_with():
    task = welcome_task(scalars={"alone-epochs": 2})
    _, memory = CLIENT.train(task, {})
    head = memory["fitted-head"]["weight"].item()
    alone, initial = line_model(), state_of(line_model())
    plain = line_task(POINTS, model=alone, initial=initial, epochs=2)
    local_sgd(plain)
    scored = line_task(
        POINTS,
        phase="evaluate",
        received={"encoder": {"weight": torch.tensor([[5.0]])}},
    )
    x = torch.tensor([[3.0]])
    values = {
        name: predictor(x).item()
        for name, predictor in CLIENT.predictors(scored, memory)
    }
    assert list(values) == ["personal", "shared", "alone"]
    assert values["personal"] == pytest.approx(head * 5 * 3)
    assert values["shared"] == pytest.approx(head * 2 * 3)
    assert values["alone"] == pytest.approx(alone(x).item())


SETTINGS = {
    "data__clients": 8,
    "data__unseen_clients": 2,
    "rounds__count": 3,
    "rounds__fraction": 0.67,
    "hdc_fl__activation": "always",
}


def test_newcomers_change_no_bit_of_the_others(run):
    without = run("hdc-fl", name="without", **SETTINGS)
    with_ = run(
        "hdc-fl",
        name="with",
        **SETTINGS,
        hdc_fl__newcomer_epochs=2,
        hdc_fl__newcomer_alone_epochs=2,
    )
    shared = ("bank/", "final/params", "hdc-fl/refreshes", "hdc-fl/memberships")
    first, second = without.bits(), with_.bits()
    kept = [name for name in first if name.startswith(shared)]
    assert len(kept) > 6
    for name in kept:
        assert second[name] == first[name], name
    seen = [
        [r for r in done.rows("metrics.csv") if r["trained"] == "true"]
        for done in (without, with_)
    ]
    assert seen[0] == seen[1]
    # Some fitted a head in round 1 and trained later, from the common head.
    at_first = {r["client"] for r in seen[0] if r["round"] == "1"}
    at_last = {r["client"] for r in seen[0] if r["round"] == "3"}
    assert at_last - at_first
    for client in at_last:
        name = f"memory/{int(client):06}/"
        for file in first:
            if file.startswith(name):
                assert second[file] == first[file], file


def test_unseen_clients_stay_untrained_and_have_three_numbers(run):
    done = run(
        "hdc-fl",
        **SETTINGS,
        hdc_fl__newcomer_epochs=2,
        hdc_fl__newcomer_alone_epochs=2,
    )
    rows = [r for r in done.rows("metrics.csv") if int(r["client"]) >= 6]
    assert {(r["trained"], r["last_trained_round"]) for r in rows} == {("false", "0")}
    last = [r for r in rows if r["round"] == "3"]
    models = ["personal", "shared", "alone"]
    assert [r["model"] for r in last] == models * 2
    assert [r["model"] for r in rows if r["round"] == "2"] == ["personal"] * 2
    unseen = done.summary["unseen"]
    for model in models:
        values = [float(r["accuracy"]) for r in last if r["model"] == model]
        assert unseen["models"][model] == {
            "mean": pytest.approx(sum(values) / 2),
            "worst": min(values),
        }
    assert unseen["clients"] == 2
    assert unseen["mean"] == unseen["models"]["personal"]["mean"]
    placed = done.rows("hdc-fl/newcomers.csv")
    assert {"6", "7"} <= {row["client"] for row in placed}
    sums: dict[tuple[str, str], float] = {}
    for row in placed:
        key = row["round"], row["client"]
        sums[key] = sums.get(key, 0.0) + float(row["membership"])
    assert list(sums.values()) == pytest.approx([1.0] * len(sums))


def test_without_the_setting_there_is_no_trace_of_newcomers(run):
    done = run("hdc-fl", **SETTINGS)
    assert not (done.path / "hdc-fl/newcomers.csv").exists()
    state = done.tensors("final/state.safetensors")
    parts = {"initial-head", "gate", "groups", "snapshot", "raw-snapshot"}
    assert set(state) == parts
    assert {row["model"] for row in done.rows("metrics.csv")} == {"personal"}


def test_a_fifth_of_the_clients_at_a_time_and_how_old_their_entries_are(run):
    done = run(
        "hdc-fl",
        data__clients=10,
        rounds__count=6,
        rounds__fraction=0.2,
        hdc_fl__max_age=2,
        hdc_fl__activation="always",
    )
    last_trained = {
        (row["round"], row["client"]): int(row["last_trained_round"])
        for row in done.rows("metrics.csv")
    }
    rows = done.rows("hdc-fl/ages.csv")
    ages = [int(row["age"]) for row in rows]
    for row, age in zip(rows, ages, strict=True):
        assert age == int(row["round"]) - last_trained[row["round"], row["client"]]
        assert row["in_prototypes"] == str(age <= 2)
    assert max(ages) > 2
    observed = {row["client"] for row in rows if row["round"] == "6"}
    trained = {k for (r, k), when in last_trained.items() if r == "6" and when}
    assert observed == trained
