from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import line_model, line_task

from client_apps.dac import LocalDac, split
from fedapp.algorithm import Update
from fedapp.data.samples import Samples
from fedapp.models import state_of
from strategies.dac import Dac

INITIAL = {"w": torch.tensor([0.0])}


def strategy(**changes):
    values = {"peers": 2, "tau": 30.0, "schedule": "variable", "growth": 0.2}
    values |= {"evaluate": "best", "num_clients": 4}
    return Dac(**values | changes)


def reply(client, value, losses, peers, count=10):
    sent = {
        "model": {"w": torch.tensor([value])},
        "losses": {"losses": torch.tensor(losses)},
    }
    asked = {"peers": " ".join(map(str, peers))}
    return Update(sent, count, {}, client, asked)


def first_round(rule, make_turn, values=(1.0, 2.0, 3.0, 4.0)):
    turn = make_turn()
    params, state = rule.init(INITIAL)
    updates = [reply(k, v, [], []) for k, v in enumerate(values)]
    params, state = rule.update(params, state, updates, turn)
    turn.bank.commit(1)
    return params, state


def test_the_first_round_is_without_peers(make_turn):
    rule = strategy()
    params, state = rule.init(INITIAL)
    tasks = list(rule.tasks(params, state, make_turn()))
    assert [(t.client, t.payload, t.scalars["peers"]) for t in tasks] == [
        (client, {}, "") for client in range(4)
    ]


def test_then_a_client_gets_its_own_model_and_those_of_peers(make_turn):
    rule = strategy()
    params, state = first_round(rule, make_turn)
    for task in rule.tasks(params, state, make_turn(round=2)):
        assert task.payload["model"]["w"].item() == task.client + 1.0
        peers = [int(word) for word in task.scalars["peers"].split()]
        assert len(peers) == 2
        assert task.client not in peers
        for place, peer in enumerate(peers, start=1):
            assert task.payload[f"peer-{place}"]["w"].item() == peer + 1.0


def test_mail_is_of_the_round_before_whatever_has_arrived_since(make_turn):
    rule = strategy()
    params, state = first_round(rule, make_turn)
    turn = make_turn(round=2)
    turn.bank.write(0, {"model": {"w": torch.tensor([99.0])}}, num_examples=1, round=2)
    values = [
        tree["w"].item()
        for task in rule.tasks(params, state, turn)
        for tree in task.payload.values()
    ]
    assert 99.0 not in values


def test_similarities_are_one_over_the_losses_found(make_turn):
    rule = strategy()
    params, state = first_round(rule, make_turn)
    updates = [reply(0, 1.0, [0.5, 0.0], [1, 2]), reply(1, 1.0, [4.0], [3])]
    _, state = rule.update(params, state, updates, make_turn(round=2))
    similarity = state["peers"]["similarity"].numpy()
    known = state["peers"]["known"].numpy()
    assert similarity[0].tolist() == [0.0, 2.0, 1e6, 0.25]
    assert known[0].tolist() == [False, True, True, False]
    assert similarity[1].tolist() == [0.0, 0.0, 0.0, 0.25]


def test_alike_peers_are_preferred_once_the_draw_is_sharp(make_turn):
    rule = strategy(peers=1, schedule="fixed")
    params, state = first_round(rule, make_turn)
    found = np.array([[0, 9, 1, 1], [9, 0, 1, 1], [1, 1, 0, 9], [1, 1, 9, 0.0]])
    state = {**state, "peers": {**state["peers"], "similarity": torch.tensor(found)}}
    peers = [
        task.scalars["peers"] for task in rule.tasks(params, state, make_turn(round=2))
    ]
    assert peers == ["1", "0", "3", "2"]


@pytest.mark.parametrize(
    ("losses", "message"), [([0.5], "1 losses of 2"), ([0.5, -1.0], "negative")]
)
def test_losses_that_cannot_be_are_refused(losses, message, make_turn):
    with pytest.raises(ValueError, match=message):
        strategy().check(reply(0, 1.0, losses, [1, 2]), {}, make_turn())


def points(count):
    return [(1.0, float(value)) for value in range(count)]


def test_all_peers_with_equal_losses_are_one_fedavg_step_and_then_training():
    models = [line_model(encoder=value) for value in (1.0, 2.0, 6.0)]
    parts = dict(zip(("model", "peer-1", "peer-2"), models, strict=True))
    task = line_task(
        points(1),
        received={name: state_of(model) for name, model in parts.items()},
        scalars={"peers": "1 2", "counts": "10 30 20"},
        lr=0.0,
    )
    update, _ = LocalDac(validation=0.0).train(task, {})
    merged = (10 * 1 + 30 * 2 + 20 * 6) / 60
    assert update.sent["model"]["encoder.weight"].item() == pytest.approx(merged)
    assert update.sent["losses"]["losses"].tolist() == pytest.approx([2.0, 18.0])
    update, _ = LocalDac(validation=0.0).train(replace(task, lr=0.1), {})
    # The target is 0: d/de (e h)^2 / 2 = e with h = 1.
    assert update.sent["model"]["encoder.weight"].item() == pytest.approx(0.9 * merged)


def test_validation_samples_are_the_same_always_and_in_no_other_part():
    samples = Samples(torch.arange(20.0)[:, None], torch.arange(20))
    parts = [split(samples, 0.1, seed=3, client=5) for _ in range(2)]
    training, validation = parts[0]
    assert (len(training), len(validation)) == (18, 2)
    both = [*training.labels.tolist(), *validation.labels.tolist()]
    assert sorted(both) == list(range(20))
    assert torch.equal(parts[1][1].labels, validation.labels)
    other = split(samples, 0.1, seed=3, client=6)[1]
    assert not torch.equal(other.labels, validation.labels)


@pytest.mark.parametrize(("count", "sizes"), [(1, (1, 1)), (2, (1, 1)), (3, (2, 1))])
def test_few_samples_leave_something_in_both_parts(count, sizes):
    samples = Samples(torch.zeros(count, 1), torch.zeros(count))
    assert tuple(map(len, split(samples, 0.1, seed=0, client=0))) == sizes


def test_training_leaves_out_the_validation_samples():
    seen = []

    def loss(output, target):
        seen.extend(target.tolist())
        return (output[:, 0] - target).square().mean()

    task = line_task(points(10), loss=loss, lr=1e-3)
    update, _ = LocalDac(validation=0.3).train(task, {})
    assert update.num_examples == 7
    # Seven in the epoch, three to see how good it is; no sample twice.
    assert sorted(seen) == list(range(10))


def test_the_best_model_by_validation_is_kept_and_scored():
    start = state_of(line_model(encoder=1.0))
    good = line_task([(1.0, 1.0)], received={"model": start}, lr=1e-9)
    _, best = LocalDac(validation=0.0).train(good, {})
    worse = state_of(line_model(encoder=3.0))
    bad = replace(good, received={"model": worse}, round=2)
    update, memory = LocalDac(validation=0.0).train(bad, best)
    assert memory is best
    assert update.metrics["validation-loss"] == pytest.approx(2.0)
    ((_, predictor),) = LocalDac(validation=0.0).predictors(
        replace(bad, received={}), memory
    )
    assert predictor(torch.ones(1, 1)).item() == pytest.approx(1.0)
    ((_, predictor),) = LocalDac(validation=0.0).predictors(bad, memory)
    assert predictor(torch.ones(1, 1)).item() == pytest.approx(3.0)


def test_a_run_mails_as_many_models_as_it_says(run):
    done = run("dac", rounds__count=3, dac__peers=2)
    model = sum(
        4 * leaf.numel()
        for leaf in done.tensors("final/state.safetensors")["initial"].values()
    )
    traffic = done.summary["traffic"]
    rows = done.rows("dac/peers.csv")
    assert len(rows) == 2 * 6 * 2
    # Two rounds with own model and two peers; texts of ids and counts are 4 bytes each.
    assert traffic["down_bytes"] == 2 * 6 * 3 * model + (6 + 2 * 6 * 2) * 4
    assert traffic["up_bytes"] == 3 * 6 * (model + 4) + len(rows) * 4
    assert traffic["evaluate_down_bytes"] == 0


def test_the_newest_model_may_be_scored_instead(run):
    done = run("dac", dac__evaluate="last", data__unseen_clients=1)
    assert done.summary["traffic"]["evaluate_down_bytes"] > 0
    assert done.summary["unseen"]["clients"] == 1
