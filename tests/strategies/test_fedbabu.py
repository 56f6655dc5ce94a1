from dataclasses import replace

import pytest
import torch
from conftest import line_model, line_task, normed_task

from client_apps.fedbabu import LocalFedBABU
from fedapp.models import state_of
from fedapp.params import select
from strategies.fedper import FedPer

POINTS = [[(1.0, 1.0)], [(1.0, 2.0)] * 3]
RULE = LocalFedBABU(tune_epochs=1, tune_part="all", tune_rate=1.0)


def client(points, encoder=1.0, **changes):
    """Return a task whose common head is 0.5."""
    model = line_model(encoder, head=0.5)
    received = {"encoder": select(state_of(model), "encoder")}
    return line_task(points, model=model, received=received, **changes)


def normed_client(**changes):
    task = normed_task(8, **changes)
    return replace(task, received={"encoder": select(task.initial, "encoder")})


def scored(rule, task):
    with torch.no_grad():
        ((name, model),) = rule.predictors(task, {})
    assert not model.training
    return name, state_of(model)


def test_one_round_by_hand(make_turn):
    # e - .1 * (.5 - y) * .5 for y = 1 and y = 2.
    updates = [RULE.train(client(points), {})[0] for points in POINTS]
    encoders = [update.sent["encoder"]["weight"].item() for update in updates]
    assert encoders == pytest.approx([1.025, 1.075])
    params, _ = FedPer().update({}, {}, updates, make_turn())
    assert params["weight"].item() == pytest.approx(1.0625)


def test_one_step_of_tuning_by_hand():
    found = []
    for points in POINTS:
        name, model = scored(RULE, client(points, encoder=1.0625))
        assert name == "personal"
        found += [model["encoder.weight"].item(), model["head.weight"].item()]
    expected = [1.0859375, 0.5498046875, 1.1359375, 0.6560546875]
    assert found == pytest.approx(expected, abs=1e-6)


def test_tuning_has_a_rate_of_its_own_and_training_has_not():
    rule = LocalFedBABU(tune_epochs=1, tune_part="all", tune_rate=0.25)
    _, model = scored(rule, client([(1.0, 2.0)]))
    # e + .025 * 1.5 * .5 and h + .025 * 1.5 * 1.
    assert model["encoder.weight"].item() == pytest.approx(1.01875)
    assert model["head.weight"].item() == pytest.approx(0.5375)
    update, _ = rule.train(client([(1.0, 2.0)]), {})
    assert update.sent["encoder"]["weight"].item() == pytest.approx(1.075)


def test_training_neither_moves_nor_sends_nor_keeps_a_head():
    # normed_task has momentum and weight decay.
    task = normed_client(epochs=3)
    update, memory = RULE.train(task, {})
    after = state_of(task.model)
    for name in ("head.weight", "head.bias"):
        assert torch.equal(after[name], task.initial[name])
    assert update.sent.keys() == {"encoder"}
    assert memory == {}


def test_a_run_keeps_no_tuned_model_and_trains_as_without_evaluations(run):
    often, once = (run("fedbabu", rounds__evaluate_every=n) for n in (1, 2))
    final = "final/params.safetensors"
    assert (often.path / final).read_bytes() == (once.path / final).read_bytes()
    assert not (often.path / "memory").exists()
    last = [
        [row for row in done.rows("metrics.csv") if row["round"] == "2"]
        for done in (often, once)
    ]
    assert last[0] == last[1]
    assert {row["model"] for row in last[0]} == {"personal"}


def test_two_evaluations_give_the_same_model_and_leave_what_was_received():
    task = normed_client()
    before = {n: leaf.clone() for n, leaf in task.received["encoder"].items()}
    (_, first), (_, second) = (scored(RULE, task) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.weight"], task.initial["head.weight"])
    assert all(torch.equal(task.received["encoder"][n], before[n]) for n in before)


@pytest.mark.parametrize(("part", "frozen"), [("head", "encoder"), ("encoder", "head")])
def test_only_the_part_that_is_asked_for_is_tuned(part, frozen):
    task = normed_client()
    _, model = scored(LocalFedBABU(2, part, 1.0), task)
    for name, leaf in task.initial.items():
        assert torch.equal(leaf, model[name]) == name.startswith(frozen), name


def test_without_epochs_of_tuning_the_shared_model_is_scored():
    task = normed_client()
    _, model = scored(LocalFedBABU(0, "all", 1.0), task)
    assert all(torch.equal(model[name], leaf) for name, leaf in task.initial.items())


@pytest.mark.parametrize("epochs", [1, 5])
def test_tuning_that_diverges_is_undone_and_flagged(epochs):
    # One step: the loss is still finite, the weights no longer are.
    task = client([(1.0, 1e10)], lr=1e30)
    name, model = scored(LocalFedBABU(epochs, "all", 1.0), task)
    assert name == "untuned"
    assert model["encoder.weight"].item() == 1.0
    assert model["head.weight"].item() == 0.5
