from dataclasses import replace

import numpy as np
import pytest
import torch

from client_apps.conditional import LocalConditional, seen
from fedapp.algorithm import LocalTask, Update
from fedapp.conditioning import Condition, layers_of
from fedapp.config import SettingsError
from fedapp.data.samples import Samples
from fedapp.models import ImageShape, build, state_of
from strategies.conditional import Conditional

LENGTH = 4
MODEL = {"w": torch.tensor([1.0])}


def strategy(mode="moments", **changes):
    values = {"stat_mode": mode, "length": LENGTH, "num_clients": 6}
    values |= {"agreement": "auto"}
    return Conditional(**values | {"unseen_clients": 2} | changes)


def client(mode="moments", **changes):
    values = {"stat_mode": mode, "length": LENGTH, "label_scale": "auto"}
    values |= {"transform": "log", "conditioning": "concat"}
    return LocalConditional(**values | changes)


def task_of(seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(24, 1, 4, 4, generator=generator) + seed
    change = Condition(LENGTH, "concat")
    model = build("mlp", ImageShape(1, 4, 4), 3, seed=1, change=change)
    values = {
        "model": model,
        "initial": state_of(model),
        "received": {"model": state_of(model)},
        "labelled": Samples(images, torch.arange(24) % 3),
        "classes": 3,
        "seed": 0,
        "client": 0,
        "lr": 0.1,
        "epochs": 1,
        "batch_size": 8,
    }
    return LocalTask(**values | changes)


def told(client_, s):
    s = torch.tensor(s)
    sent = {"statistic": {"s": s, "squares": s.square()}}
    return Update(sent, 100 + client_, {}, client_)


ROWS = [[1.0, 2.0, 0.0, 5.0], [3.0, 2.0, 4.0, -5.0], [5.0, 2.0, 2.0, 6.0]]


def agreed(make_turn):
    rule = strategy()
    params, state = rule.init(MODEL)
    turn = make_turn(phase="agree")
    updates = [told(k, row) for k, row in enumerate(ROWS)]
    return rule, *rule.update(params, state, updates, turn)


def test_constants_are_over_clients_however_much_data_they_hold(make_turn):
    _, params, state = agreed(make_turn)
    assert params is MODEL
    mean = state["agreement"]["mean"].tolist()
    assert mean == pytest.approx(np.mean(ROWS, axis=0))
    deviation = np.std(ROWS, axis=0)
    deviation[1] = 1
    assert state["agreement"]["deviation"].tolist() == pytest.approx(deviation)


def test_all_that_train_agree_before_the_first_round_and_never_again(make_turn):
    rule = strategy()
    assert rule.phases(make_turn(round=1)) == ("agree", "train")
    assert rule.phases(make_turn(round=2)) == ("train",)
    turn = make_turn(phase="agree", sampled=(1,))
    assert list(rule.participants({}, turn)) == [0, 1, 2, 3]
    (first, *_) = rule.tasks(MODEL, {}, turn)
    assert first.payload == {}


def test_an_agreement_may_be_had_for_any_statistic_and_for_none(make_turn):
    for mode, wish in (("eig", "always"), ("shuffled", "never")):
        rule = strategy(mode, agreement=wish)
        assert rule.phases(make_turn(round=1)) == ("agree", "train")
    assert strategy("moments", agreement="never").phases(make_turn()) == ("train",)


@pytest.mark.parametrize("mode", ["eig", "eig-w", "probe", "moments-local", "zeros"])
def test_other_modes_have_nothing_but_fedavgs_messages(mode, make_turn):
    rule = strategy(mode)
    assert rule.phases(make_turn(round=1)) == ("train",)
    for task in rule.tasks(*rule.init(MODEL), make_turn()):
        assert task.payload == {"model": MODEL}
        assert not task.scalars


def test_constants_go_to_each_client_once_and_to_unseen_ones_at_evaluation(make_turn):
    rule, params, state = agreed(make_turn)
    parts = [
        task.payload.keys()
        for task in rule.tasks(params, state, make_turn(last_trained={0: 1, 2: 1}))
    ]
    assert parts == [{"model"}, {"model", "agreement"}] * 2
    turn = make_turn(phase="evaluate", last_trained=dict.fromkeys(range(4), 1))
    parts = [t.payload.keys() for t in rule.personal(params, state, range(6), turn)]
    assert parts == [{"model"}] * 4 + [{"model", "agreement"}] * 2


def test_a_statistic_of_another_length_is_refused_by_the_server(make_turn):
    from fedapp.turn import check_update

    turn = make_turn(phase="agree")
    expected = strategy().expects(MODEL, {}, turn)
    check_update(told(0, ROWS[0]), expected)
    with pytest.raises(ValueError, match=r"statistic/s\w* has shape \(3,\) instead of"):
        check_update(told(0, ROWS[0][:3]), expected)


def test_constants_of_another_length_are_refused_by_the_client():
    three = {"mean": torch.zeros(3), "deviation": torch.ones(3)}
    task = task_of()
    task = replace(task, received={**task.received, "agreement": three})
    with pytest.raises(SettingsError, match=r"of 3 numbers.* has 4: conditional\.leng"):
        client().train(task, {})


def test_what_the_model_sees_is_standardised_by_what_was_agreed():
    agreement = {"mean": torch.tensor([1.0] * 4), "deviation": torch.tensor([2.0] * 4)}
    s = torch.tensor([1.0, 3.0, 5.0, -1.0], dtype=torch.float64)
    memory = {"statistic": {"s": s}, "agreement": agreement}
    assert seen(memory).tolist() == [0.0, 1.0, 2.0, -1.0]
    assert seen({"statistic": {"s": s}}).tolist() == s.tolist()


def test_a_statistic_is_computed_once_and_kept():
    task = task_of()
    update, memory = client("eig").train(task, {})
    assert update.sent.keys() == {"model"}
    assert not any(name.endswith(".s") for name in update.sent["model"])
    _, again = client("eig").train(replace(task, round=2), memory)
    assert again is memory
    (layer,) = layers_of(task.model)
    assert torch.equal(layer.s.double(), memory["statistic"]["s"].float().double())


def test_other_training_data_have_another_statistic():
    _, memory = client("eig").train(task_of(), {})
    _, other = client("eig").train(task_of(seed=1), memory)
    assert not torch.equal(other["statistic"]["s"], memory["statistic"]["s"])


def test_a_client_that_never_trained_is_served_with_its_own_statistic():
    task, other = task_of(), task_of(seed=1)
    images = torch.randn(5, 1, 4, 4)
    with torch.no_grad():
        found = [
            predictor(images)
            for one in (task, other)
            for _, predictor in client("probe").predictors(one, {})
        ]
    assert not torch.allclose(*found)


def test_shuffled_gives_each_client_the_statistic_of_another(make_turn):
    rule = strategy("shuffled")
    params, state = rule.init(MODEL)
    updates = [
        Update({"statistic": {"s": torch.full((LENGTH,), float(k))}}, 1, {}, k)
        for k in range(4)
    ]
    turn = make_turn(phase="agree")
    _, state = rule.update(params, state, updates, turn)
    mail = rule.personal(params, state, range(6), make_turn(phase="evaluate"))
    got = [int(task.payload["other"]["s"][0]) for task in mail]
    assert all(donor != client_ for client_, donor in enumerate(got[:4]))
    assert sorted(got[:4]) == [0, 1, 2, 3]
    assert set(got[4:]) <= {0, 1, 2, 3}


def test_the_control_that_is_told_groups_needs_room_and_a_simulation():
    with pytest.raises(ValueError, match=r"length = 4 .* 5 latent groups"):
        strategy("cluster-onehot", groups=(0, 4)).init(MODEL)
    with pytest.raises(ValueError, match="only a simulation knows"):
        strategy("cluster-onehot").init(MODEL)


# Whole runs.

WIDE = 4 * 32 * 200
"""Bytes of the weights that see s in the tiny network."""


def test_zeros_is_fedavg_of_the_wider_network_bit_for_bit(run):
    settings = {"rounds__fraction": 0.5, "rounds__count": 3}
    fedavg = run("fedavg", **settings)
    theirs = fedavg.tensors("final/params.safetensors")["params"]
    zeros = run("conditional", **settings, **{"conditional__stat-mode": "zeros"})
    ours = zeros.tensors("final/params.safetensors")["params"]
    assert ours.keys() - theirs.keys() == {"encoder.1.condition"}
    assert all(torch.equal(ours[name], leaf) for name, leaf in theirs.items())
    assert zeros.summary["accuracy"] == fedavg.summary["accuracy"]
    start = build(
        "mlp", ImageShape(1, 8, 8), 10, seed=42, change=Condition(32, "concat")
    )
    untouched = state_of(start)["encoder.1.condition"]
    torch.testing.assert_close(ours["encoder.1.condition"], untouched)


@pytest.mark.parametrize("mode", ["eig", "contrasts"])
def test_traffic_is_fedavgs_of_the_wider_network_exactly(run, mode):
    settings = {"rounds__count": 3, "data__unseen_clients": 1}
    fedavg = run("fedavg", **settings).summary["traffic"]
    found = run("conditional", **settings, **{"conditional__stat-mode": mode})
    messages = {"down_bytes": 3 * 5, "up_bytes": 3 * 5, "evaluate_down_bytes": 3 * 6}
    expected = {name: fedavg[name] + count * WIDE for name, count in messages.items()}
    assert found.summary["traffic"] == fedavg | expected


def test_moments_adds_one_exchange_of_64_numbers(run):
    settings = {"rounds__count": 3, "data__unseen_clients": 1}
    eig, moments = (
        run("conditional", **settings, **{"conditional__stat-mode": mode})
        for mode in ("eig", "moments")
    )
    before, after = (done.summary["traffic"] for done in (eig, moments))
    numbers = 4 * 2 * 32
    assert after["up_bytes"] - before["up_bytes"] == 5 * numbers
    assert after["down_bytes"] - before["down_bytes"] == 5 * numbers
    # The unseen client keeps nothing: it is told at each of the three evaluations.
    more = after["evaluate_down_bytes"] - before["evaluate_down_bytes"]
    assert more == 3 * numbers


def test_clients_that_only_agreed_did_not_train(run):
    done = run("conditional", rounds__count=1, rounds__fraction=0.5)
    trained = [c["trained"] for c in done.summary["per_client"]]
    assert trained.count(True) == 3


def test_an_unseen_client_with_a_class_nobody_trained_is_served(run):
    # Three windows of classes; the last client is the only one to see its own.
    settings = {"data__shift": "label-window", "data__shift_groups": "3"}
    settings |= {"data__clients": 3, "data__unseen_clients": 1}
    done = run("conditional", **settings, data__partition="iid")
    (unseen,) = [c for c in done.summary["per_client"] if not c["trained"]]
    assert unseen["examples"] > 0
    assert np.isfinite(unseen["loss"])


@pytest.mark.parametrize("store", ["folder", "context"])
def test_film_learns_its_weights(run, store):
    own = {"conditional__conditioning": "film", "memory__store": store}
    done = run("conditional", **own)
    params = done.tensors("final/params.safetensors")["params"]
    assert params["encoder.3.scale"].shape == (200, 32)
    assert params["encoder.3.scale"].any()
    assert params["encoder.3.shift"].any()
