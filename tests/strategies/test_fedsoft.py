from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import line_model, line_task, normed_task

from client_apps.fedsoft import LocalFedSoft, pull
from fedapp.algorithm import Update
from fedapp.clusters import cluster_models, cluster_parts
from fedapp.models import state_of
from fedapp.params import clone
from strategies.fedsoft import FedSoft

INITIAL = {"w": torch.tensor([0.0])}


def strategy(**changes):
    values = {"clusters": 2, "estimate_every": 2, "clients_per_cluster": 0}
    values |= {"selection": True, "evaluated": "personal", "num_clients": 4}
    return FedSoft(**values | {"other_start": lambda seed: tree(10.0)} | changes)


def tree(value):
    return {"w": torch.tensor([float(value)])}


def estimate(u, client, count=5):
    return Update({"u": {"share": torch.tensor(u)}}, count, client=client)


def model(value, client):
    return Update({"model": tree(value)}, 5, client=client)


def estimated(rule, make_turn, shares, counts=None):
    turn = make_turn(phase="estimate")
    updates = [
        estimate(u, client, (counts or {}).get(client, 5))
        for client, u in shares.items()
    ]
    return rule.update({}, rule.init(INITIAL)[1], updates, turn)[1]


def models(state):
    return [m["w"].item() for m in cluster_models(state)]


def test_the_pull_by_hand():
    # lam / 2 * sum_s u_s ||w - c_s||^2 with c = (0, 0), (2, 4) is .25 at u = (.6, .4);
    # sent are cbar = (.8, 1.6) and U = 1, which differ by a constant.
    for u, total, gradient, cbar in [
        ((0.6, 0.4), 0.25, (0.02, 0.04), (0.8, 1.6)),
        ((1.0, 1e-4), 0.250025, (0.09999, 0.19998), (0.0002, 0.0004)),
    ]:
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        centres = torch.tensor([[0.0, 0.0], [2.0, 4.0]])
        weights = torch.tensor(u)
        anchor = weights @ centres / weights.sum()
        assert anchor.tolist() == pytest.approx(cbar, abs=1e-5)
        found = pull({"w": w}, {"w": anchor}, 0.1 * weights.sum().item())
        found.backward()
        assert w.grad.tolist() == pytest.approx(gradient, abs=1e-5)
        constant = 0.05 * (weights * (centres - anchor).square().sum(dim=1)).sum()
        assert found.item() + constant.item() == pytest.approx(total, abs=1e-5)


def anchored(task, anchor, **changes):
    received = {"anchor": anchor}
    return replace(task, received=received, scalars={"total": 1.0}, **changes)


def test_a_step_by_hand():
    # y = h e x at h = e = 1, one point (1, 3): both gradients are -2. The pull of
    # strength lam U = .5 * 2 to (4, -1) adds 1 * (1 - 4) and 1 * (1 + 1).
    task = line_task([(1.0, 3.0)])
    anchor = {
        "encoder.weight": torch.tensor([[4.0]]),
        "head.weight": torch.tensor([[-1.0]]),
    }
    task = replace(task, received={"anchor": anchor}, scalars={"total": 2.0})
    update, memory = LocalFedSoft(lam=0.5, sigma=0.0).train(task, {})
    after = update.sent["model"]
    assert after["encoder.weight"].item() == pytest.approx(1 - 0.1 * (-2 - 3))
    assert after["head.weight"].item() == pytest.approx(1 - 0.1 * (-2 + 2))
    assert memory == {"model": after}


def test_training_starts_from_the_own_model_not_from_a_clusters():
    task = line_task([(1.0, 3.0)])
    far = state_of(line_model(50.0, 50.0))
    rule = LocalFedSoft(lam=0.0, sigma=0.0)
    _, memory = rule.train(anchored(task, far), {})
    assert memory["model"]["encoder.weight"].item() == pytest.approx(1.2)
    _, memory = rule.train(anchored(task, far, round=2), memory)
    assert 1.2 < memory["model"]["encoder.weight"].item() < 2


def test_buffers_are_not_pulled():
    task = normed_task(8)
    anchor = {k: v + 5 if v.is_floating_point() else v for k, v in task.initial.items()}
    plain, _ = LocalFedSoft(lam=0.0, sigma=0.0).train(anchored(task, anchor), {})
    moved = {**anchor, "encoder.norm.running_mean": torch.full((3,), 1e6)}
    rule = LocalFedSoft(lam=0.1, sigma=0.0)
    one, other = (
        rule.train(anchored(task, a), {})[0].sent["model"] for a in (anchor, moved)
    )
    assert not torch.equal(one["head.bias"], plain.sent["model"]["head.bias"])
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_importance_counts_samples_in_evaluation_mode():
    task = normed_task(9)
    other = {k: v.neg() if k.startswith("head") else v for k, v in task.initial.items()}
    received = cluster_parts([task.initial, other])
    task = replace(task, phase="estimate", received=received)
    memory = {"model": clone(task.initial)}
    update, after = LocalFedSoft(lam=0.1, sigma=0.2).train(task, memory)
    assert after is memory
    task.model.load_state_dict(task.initial)
    task.model.eval()
    with torch.no_grad():
        logits = task.model(task.labelled.images)
    # The other model's logits are the negative of these.
    own = (logits[range(9), task.labelled.labels] > logits.mean(dim=1)).float().mean()
    assert 0.2 < own < 0.8
    expected = [own.item(), 1 - own.item()]
    assert update.sent["u"]["share"].tolist() == pytest.approx(expected)
    assert update.num_examples == 9


def test_evaluation_is_of_the_own_model_or_of_what_the_server_sends():
    task = line_task([(1.0, 3.0)])
    rule = LocalFedSoft(lam=0.1, sigma=0.0)
    memory = {"model": state_of(line_model(2.0, 3.0))}

    def at_one(received):
        ((_, found),) = rule.predictors(replace(task, received=received), memory)
        return found(torch.ones(1, 1)).item()

    assert at_one({}) == 6.0
    assert at_one({"anchor": state_of(line_model(5.0, 3.0))}) == 15.0


def test_all_clients_estimate_every_so_many_rounds(make_turn):
    rule = strategy(estimate_every=3, unseen_clients=1)
    phases = [len(rule.phases(make_turn(round=r))) for r in range(1, 8)]
    assert phases == [2, 1, 1, 2, 1, 1, 2]
    turn = make_turn(phase="estimate", sampled=(1,))
    assert list(rule.participants(rule.init(INITIAL)[1], turn)) == [0, 1, 2, 3]
    assert rule.trains(make_turn())
    assert not rule.trains(turn)


def test_clusters_start_differently_and_the_first_from_the_common_model():
    state = strategy().init(INITIAL)[1]
    assert models(state) == [0.0, 10.0]


SHARES = {0: [1.0, 0.0], 1: [1.0, 0.0], 2: [0.0, 1.0], 3: [0.5, 0.5]}


def test_what_is_drawn_for_a_cluster_follows_importance_and_is_its_mean(make_turn):
    rule = strategy(clients_per_cluster=2)
    state = estimated(rule, make_turn, SHARES)
    turn = make_turn()
    weights = rule._weights(state, turn)
    assert rule.participants(state, turn) == sorted(weights)
    # Only two clients are possible for cluster 1.
    assert [k for k in weights if 1 in weights[k]] == [2, 3]
    values = {0: 1.0, 1: 3.0, 2: 5.0, 3: 9.0}
    _, after = rule.update(
        {}, state, [model(values[k], k) for k in sorted(weights)], turn
    )
    zero = [values[k] for k in weights if 0 in weights[k]]
    assert len(zero) == 2
    assert models(after) == [np.mean(zero), 7.0]


def test_a_draw_is_the_same_at_every_call_and_differs_between_rounds(make_turn):
    rule = strategy(clients_per_cluster=1)
    state = estimated(rule, make_turn, {k: [0.5, 0.5] for k in range(4)})
    draws = [tuple(rule.participants(state, make_turn(round=r))) for r in range(1, 20)]
    again = [tuple(rule.participants(state, make_turn(round=r))) for r in range(1, 20)]
    assert draws == again
    assert len(set(draws)) > 3


def test_draws_are_together_as_many_as_the_sample(make_turn):
    rule = strategy(num_clients=12)
    state = estimated(rule, make_turn, {k: [0.5, 0.5] for k in range(12)})
    for size, each in ((6, 3), (5, 3), (1, 1)):
        turn = make_turn(num_clients=12, sampled=tuple(range(size)))
        assert [len(own) for own in rule._chosen(state, turn)] == [each, each]


def test_without_selection_the_sample_trains_and_is_weighted(make_turn):
    rule = strategy(selection=False)
    state = estimated(rule, make_turn, {0: [0.6, 0.4], 1: [1.0, 1e-4]}, {0: 5, 1: 4})
    turn = make_turn(sampled=(0, 1, 3))
    # Client 3 has not estimated: it has no mixture to be pulled to.
    assert rule.participants(state, turn) == [0, 1]
    _, after = rule.update({}, state, [model(2.0, 0), model(6.0, 1)], turn)
    v = [[3 / 7, 4 / 7], [2 / 2.0004, 0.0004 / 2.0004]]
    expected = [2 * own[0] + 6 * own[1] for own in v]
    assert models(after) == pytest.approx(expected, rel=1e-6)


def test_who_fails_leaves_its_clusters_to_the_others(make_turn):
    rule = strategy(clients_per_cluster=4)
    state = estimated(rule, make_turn, SHARES)
    turn = make_turn()
    assert rule.participants(state, turn) == [0, 1, 2, 3]
    _, after = rule.update({}, state, [model(4.0, 0), model(8.0, 1)], turn)
    assert models(after) == [6.0, 10.0]


def test_unseen_clients_estimate_but_are_never_drawn(make_turn):
    rule = strategy(unseen_clients=2, clients_per_cluster=4)
    state = estimated(rule, make_turn, SHARES)
    assert rule.participants(state, make_turn()) == [0, 1]
    (task,) = rule.personal({}, state, [3], make_turn(phase="evaluate"))
    assert task.payload["anchor"]["w"].item() == 5.0


def test_training_is_told_the_mixture_and_its_mass(make_turn):
    rule = strategy()
    state = estimated(rule, make_turn, {0: [1.0, 0.25], 1: [0.25, 0.75]})
    turn = make_turn(sampled=(0, 1, 2, 3))
    tasks = {task.client: task for task in rule.tasks({}, state, turn)}
    assert tasks[0].payload["anchor"]["w"].item() == pytest.approx(10 * 0.25 / 1.25)
    assert tasks[0].scalars["total"] == 1.25
    assert tasks[0].payload.keys() == {"anchor"}


def test_a_single_cluster_pulls_everyone_to_one_model(make_turn):
    rule = strategy(clusters=1)
    state = estimated(rule, make_turn, {0: [1.0], 1: [1.0]})
    _, state = rule.update({}, state, [model(3.0, 0)], make_turn(sampled=(0,)))
    tasks = list(rule.tasks({}, state, make_turn(round=2)))
    assert tasks
    for task in tasks:
        assert task.payload["anchor"]["w"].item() == models(state)[0]
        assert task.scalars["total"] == 1.0


@pytest.mark.parametrize(
    ("evaluated", "last", "expected"),
    [
        ("personal", {0: 1}, [None, 7.5, 5.0]),
        ("mixture", {0: 1}, [2.0, 7.5, 5.0]),
    ],
)
def test_who_is_evaluated_with_what(make_turn, evaluated, last, expected):
    rule = strategy(evaluated=evaluated)
    state = estimated(rule, make_turn, {0: [1.0, 0.25], 1: [0.25, 0.75]})
    turn = make_turn(phase="evaluate", last_trained=last)
    # Client 2 never estimated: the plain mean of the clusters.
    found = [task.payload for task in rule.personal({}, state, range(3), turn)]
    values = [p["anchor"]["w"].item() if p else None for p in found]
    assert values == expected


def test_impossible_importances_are_refused(make_turn):
    rule, turn = strategy(), make_turn(phase="estimate")
    rule.check(estimate([1.0, 1e-4], 0), {}, turn)
    for bad in ([-0.1, 1.0], [0.5, 1.5], [0.0, 0.0]):
        with pytest.raises(ValueError, match="its importances are"):
            rule.check(estimate(bad, 0), {}, turn)


SETTINGS = {"rounds__count": 3, "rounds__fraction": 0.67, "fedsoft__clusters": 2}


def test_without_pull_personal_models_are_local_ones_bit_for_bit(run):
    done = run("fedsoft", **SETTINGS, fedsoft__lam=0.0, fedsoft__selection=False)
    local = run("local", rounds__count=3, rounds__fraction=0.67)

    def newest(run_):
        homes = sorted((run_.path / "memory").iterdir())
        return {h.name: run_.tensors(str(sorted(h.iterdir())[-1])) for h in homes}

    one, other = newest(done), newest(local)
    assert one.keys() == other.keys()
    for client, memory in one.items():
        for name, leaf in other[client]["model"].items():
            assert torch.equal(memory["model"][name], leaf)
    accuracy = [
        {c["client"]: c["accuracy"] for c in r.summary["per_client"] if c["trained"]}
        for r in (done, local)
    ]
    assert accuracy[0] == accuracy[1]


def test_estimating_is_no_training(run):
    done = run("fedsoft", **{**SETTINGS, "rounds__count": 1, "rounds__fraction": 0.34})
    phases = [r["phase"] for r in done.rows("timing.csv") if r["client"]]
    trained = sum(client["trained"] for client in done.summary["per_client"])
    assert phases.count("estimate") == 6
    assert trained == phases.count("train") <= 2
