from dataclasses import replace
from math import exp

import pytest
import torch
from conftest import line_model, line_task, normed_task
from torch.nn import functional

from client_apps.fedce import LocalFedCE
from fedapp.algorithm import Update
from fedapp.clusters import cluster_models, cluster_parts
from fedapp.models import state_of
from strategies.fedce import FedCE, softmax

INITIAL = {"w": torch.tensor([0.0])}


def tree(value):
    return {"w": torch.tensor([float(value)])}


def strategy(**changes):
    values = {"clusters": 2, "history_norm": "none", "evaluated": "best"}
    values |= {"num_clients": 4, "other_start": lambda seed: tree(10.0)}
    return FedCE(**values | changes)


def reply(value, gains, client, count=5):
    sent = {"model": tree(value), "assoc": {"gains": torch.tensor(gains)}}
    return Update(sent, count, {"best": gains.index(1.0)}, client)


def models(state):
    return [m["w"].item() for m in cluster_models(state)]


def test_every_cluster_is_a_soft_max_mean_of_all_replies(make_turn):
    rule = strategy(clusters=2)
    updates = [
        reply(1.0, [1.0, 0.3], 0, 99),
        reply(2.0, [0.4, 1.0], 1),
        reply(4.0, [1.0, 0.9], 3),
    ]
    _, state = rule.update({}, rule.init(INITIAL)[1], updates, make_turn())
    columns = [(0.39234, 0.215321, 0.39234), (0.206788, 0.41642, 0.376792)]
    expected = [a + 2 * b + 4 * c for a, b, c in columns]
    assert models(state) == pytest.approx(expected, abs=1e-5)
    h = state["history"]["h"]
    assert h[2].tolist() == [0.0, 0.0]
    assert h[1].tolist() == pytest.approx([0.4, 1.0])
    assert state["history"]["rounds"].tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("norm", "column"),
    [
        ("none", (0.499381, 0.001238, 0.499381)),
        ("mean", (0.39234, 0.215321, 0.39234)),
    ],
)
def test_histories_add_up_or_are_means(make_turn, norm, column):
    rule = strategy(history_norm=norm)
    updates = [
        reply(1.0, [1.0, 0.3], 0),
        reply(2.0, [0.4, 1.0], 1),
        reply(4.0, [1.0, 0.9], 3),
    ]
    state = rule.init(INITIAL)[1]
    for _ in range(10):
        _, state = rule.update({}, state, updates, make_turn())
    a, b, c = column
    assert models(state)[0] == pytest.approx(a + 2 * b + 4 * c, abs=1e-5)


def test_equal_histories_of_one_cluster_are_a_uniform_mean(make_turn):
    rule = strategy(clusters=1)
    updates = [reply(1.0, [1.0], 0, 99), reply(4.0, [1.0], 1, 1)]
    _, state = rule.update({}, rule.init(INITIAL)[1], updates, make_turn())
    assert models(state) == [2.5]


def test_a_single_cluster_weighs_by_participation(make_turn):
    rule, turn = strategy(clusters=1), make_turn()
    _, state = rule.update({}, rule.init(INITIAL)[1], [reply(9.0, [1.0], 0)], turn)
    updates = [reply(1.0, [1.0], 0), reply(4.0, [1.0], 1)]
    _, state = rule.update({}, state, updates, turn)
    share = exp(2) / (exp(2) + exp(1))
    assert models(state) == pytest.approx([share * 1 + (1 - share) * 4])


def test_long_histories_do_not_overflow(make_turn):
    rule = strategy()
    state = rule.init(INITIAL)[1]
    history = {"h": torch.full((4, 2), 5000.0, dtype=torch.float64)}
    state = {**state, "history": {**state["history"], **history}}
    updates = [reply(1.0, [1.0, 1.0], 0), reply(3.0, [1.0, 1.0], 1)]
    _, state = rule.update({}, state, updates, make_turn())
    assert models(state) == [2.0, 2.0]


def test_a_mixture_blends_by_the_history_per_round(make_turn):
    rule = strategy(evaluated="mixture")
    state = rule.init(INITIAL)[1]
    h = torch.tensor([[4.0, 2.0], [0.0, 0.0], [1e4, 0.0], [0.0, 1.0]]).double()
    state = {**state, "history": {**state["history"], "h": h}}
    turn = make_turn(phase="evaluate", round=4)
    found = [
        t.payload["model"]["w"].item() for t in rule.personal({}, state, range(4), turn)
    ]
    expected = [10 / (1 + exp(0.5)), 5.0, 0.0, 10 / (1 + exp(-0.25))]
    assert found == pytest.approx(expected, abs=1e-5)
    assert softmax(h[0].numpy() / 4).sum() == pytest.approx(1.0)


def test_all_models_are_sent_to_choose_from(make_turn):
    rule = strategy()
    state = rule.init(INITIAL)[1]
    for turn in (make_turn(), make_turn(phase="evaluate")):
        (task,) = rule.personal({}, state, [2], turn)
        assert task.payload.keys() == {"cluster-0", "cluster-1"}


def test_associations_without_a_best_are_refused(make_turn):
    rule = strategy()
    rule.check(reply(1.0, [1.0, 0.2], 0), {}, make_turn())
    for gains in ([0.9, 0.2], [1.0, -0.1], [1.0, 1.5]):
        bad = replace(
            reply(1.0, [1.0, 0.2], 0), sent={"assoc": {"gains": torch.tensor(gains)}}
        )
        with pytest.raises(ValueError, match="its associations are"):
            rule.check(bad, {}, make_turn())


def classify(count=10):
    """Return a task with two models, the second of which fits better."""
    task = normed_task(count)
    better = {**task.initial, "head.bias": task.initial["head.bias"].clone()}
    task = replace(
        task, labelled=replace(task.labelled, labels=torch.ones(count).long())
    )
    better["head.bias"] += torch.tensor([-3.0, 3.0])
    return replace(task, received=cluster_parts([task.initial, better]))


def losses_of(task, model):
    task.model.load_state_dict(model)
    task.model.eval()
    with torch.no_grad():
        batches = [
            functional.cross_entropy(task.model(x), y)
            for x, y in task.labelled.in_order(task.batch_size)
        ]
    return torch.stack(batches)


def test_a_client_trains_its_best_model_and_tells_how_near_the_other_is():
    task = classify()
    other, best = (losses_of(task, model) for model in cluster_models(task.received))
    assert len(best) == 3  # 4, 4 and 2 samples
    update, memory = LocalFedCE(delta=0.5).train(task, {})
    assert (update.metrics, memory, update.num_examples) == ({"best": 1}, {}, 10)
    gain = exp(-0.5 * (best - other).norm().item())
    assert update.sent["assoc"]["gains"].tolist() == pytest.approx([gain, 1.0])
    alone = replace(task, received={"cluster-0": task.received["cluster-1"]})
    expected, _ = LocalFedCE(delta=0.5).train(alone, {})
    for name, leaf in expected.sent["model"].items():
        assert torch.equal(update.sent["model"][name], leaf)


def test_evaluation_chooses_by_training_loss_and_takes_a_mixture_as_it_comes():
    task = classify()
    ((_, found),) = LocalFedCE(delta=0.5).predictors(task, {})
    best = task.received["cluster-1"]
    assert torch.equal(found.head.bias, best["head.bias"])
    mixed = state_of(line_model(2.0, 4.0))
    task = line_task([(1.0, 1.0)], received={"model": mixed})
    ((_, found),) = LocalFedCE(delta=0.5).predictors(task, {})
    assert found(torch.ones(1, 1)).item() == 8.0


def test_history_is_written_down(run):
    done = run("fedce", rounds__fraction=0.5, fedce__clusters=3)
    rows = done.rows("fedce/history.csv")
    assert len(rows) == 2 * 3 * 3
    best = [(r["round"], r["client"]) for r in rows if r["best"] == "True"]
    assert len(best) == len(set(best)) == 2 * 3
    history = done.tensors("final/state.safetensors")["history"]["h"]
    last = {(int(r["client"]), int(r["cluster"])): float(r["history"]) for r in rows}
    for (client, cluster), value in last.items():
        assert history[client, cluster].item() == value
