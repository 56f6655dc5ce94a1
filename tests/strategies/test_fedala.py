from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from conftest import line_model, line_task, normed_task

from client_apps.fedala import LocalFedALA, top_parameters, window
from fedapp.models import ImageShape, build, state_of
from fedapp.params import clone

RULE = LocalFedALA(layers=1, weight_lr=0.1, share=1.0)


def client(**changes):
    """Return a task with a global head of 3, and a memory of an old head of 1."""
    model = line_model(head=3.0)
    task = line_task([(1.0, 1.5)], model=model, received={"model": state_of(model)})
    old = {"old": {"head.weight": torch.ones(1, 1)}}
    return replace(task, **changes), old


def with_weight(memory, weight):
    return {**memory, "weights": {"head.weight": torch.full((1, 1), weight)}}


def scored(rule, task, memory):
    with torch.no_grad():
        ((name, model),) = rule.predictors(task, memory)
    assert name == "personal"
    assert not model.training
    return state_of(model)


def normed_client(**changes):
    task = normed_task(8, **changes)
    moved = {n: x + 1 if x.is_floating_point() else x for n, x in task.initial.items()}
    old = {n: task.initial[n] for n in ("head.weight", "head.bias")}
    return replace(task, received={"model": moved}), {"old": old}


def test_what_is_scored_is_the_mixture_after_one_more_pass():
    task, memory = client()
    model = scored(RULE, task, with_weight(memory, 1.0))
    assert model["head.weight"].item() == pytest.approx(2.4)
    model = scored(RULE, task, with_weight(memory, 0.7))
    assert model["head.weight"].item() == pytest.approx(2.04)


def test_training_starts_from_the_mixture_and_keeps_the_weights():
    task, memory = client()
    update, after = RULE.train(task, with_weight(memory, 1.0))
    # From encoder 1 and head 2.4, the error being .9, one step of each.
    head, encoder = 2.4 - 0.1 * 0.9, 1 - 0.1 * 0.9 * 2.4
    assert after["weights"]["head.weight"].item() == pytest.approx(0.7)
    assert after["old"]["head.weight"].item() == pytest.approx(head)
    assert update.sent["model"]["head.weight"].item() == pytest.approx(head)
    assert update.sent["model"]["encoder.weight"].item() == pytest.approx(encoder)


def test_before_it_ever_trained_a_client_has_the_global_model_and_no_weights():
    task, _ = client()
    assert scored(RULE, task, {})["head.weight"].item() == 3.0
    update, memory = RULE.train(task, {})
    assert memory.keys() == {"old"}
    assert update.sent["model"]["head.weight"].item() == pytest.approx(3 - 0.1 * 1.5)


def test_nothing_is_learned_as_long_as_nothing_differs():
    task, _ = client()
    same = {"old": {"head.weight": torch.full((1, 1), 3.0)}}
    _, memory = RULE.train(task, same)
    assert "weights" not in memory
    _, memory = RULE.train(task, with_weight(same, 0.25))
    assert memory["weights"]["head.weight"].item() == 0.25


def test_the_first_learning_goes_on_until_losses_settle_and_later_ones_do_not():
    # A step keeps 1 - .1 * 2 * 2 = .6 of the distance to .25.
    task, memory = client()
    losses, weight, passes = [], 1.0, 0
    while passes < 10 or torch.tensor(losses[-10:]).std(correction=0) >= 0.1:
        losses.append((2 * weight - 0.5) ** 2 / 2)
        weight, passes = 0.25 + 0.6 * (weight - 0.25), passes + 1
    assert passes > 10
    _, after = RULE.train(task, memory)
    assert after["weights"]["head.weight"].item() == pytest.approx(weight, abs=1e-6)
    _, later = RULE.train(task, with_weight(memory, 1.0))
    assert later["weights"]["head.weight"].item() == pytest.approx(0.7)


def test_evaluation_works_on_copies():
    task, memory = client()
    for start in (memory, with_weight(memory, 1.0)):
        before = {part: clone(tree) for part, tree in start.items()}
        first, second = (scored(RULE, task, start) for _ in range(2))
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert start.keys() == before.keys()
        for part, tree in before.items():
            assert all(torch.equal(start[part][n], leaf) for n, leaf in tree.items())


def test_lower_layers_and_buffers_are_the_global_ones_bit_for_bit():
    task, memory = normed_client()
    model = scored(RULE, task, memory)
    for name, leaf in task.received["model"].items():
        assert torch.equal(model[name], leaf) == (not name.startswith("head")), name


def test_the_top_layers_are_counted_by_modules_not_tensors():
    model = build("cnn", ImageShape(1, 28, 28), 10, seed=0)
    assert top_parameters(model, 1) == ["head.weight", "head.bias"]
    assert top_parameters(model, 2) == [
        "encoder.7.weight",
        "encoder.7.bias",
        "head.weight",
        "head.bias",
    ]
    everything = [name for name, _ in model.named_parameters()]
    assert top_parameters(model, 0) == top_parameters(model, 99) == everything


def test_weights_are_learned_on_a_share_that_moves_each_round():
    task = line_task([(float(k), 0.0) for k in range(20)])
    seen = {round_: window(replace(task, round=round_), 0.3) for round_ in range(1, 9)}
    rows = {round_: tuple(s.images[:, 0].tolist()) for round_, s in seen.items()}
    assert {len(set(row)) for row in rows.values()} == {6}
    assert rows[1] == tuple(window(replace(task, round=1), 0.3).images[:, 0].tolist())
    assert len(set(rows.values())) > 1
    # All are stretches of one order.
    follows = {pair for row in rows.values() for pair in pairwise(row)}
    assert len({first for first, _ in follows}) == len(follows)


def test_the_share_of_a_client_does_not_follow_how_its_samples_lie():
    task = line_task([(float(k >= 10), 0.0) for k in range(20)])
    classes = [
        set(window(replace(task, round=round_), 0.5).images[:, 0].tolist())
        for round_ in range(1, 9)
    ]
    assert classes == [{0.0, 1.0}] * 8


@pytest.mark.parametrize(
    ("total", "share", "count"), [(1, 0.8, 1), (1, 0.1, 1), (100, 0.29, 29)]
)
def test_a_share_is_rounded_down_but_to_one_at_least(total, share, count):
    assert len(window(line_task([(1.0, 1.0)] * total), share)) == count


def test_weights_of_one_on_all_layers_are_fedavg_bit_for_bit(run):
    settings = {"rounds__count": 4, "rounds__fraction": 0.5}
    fixed = {"fedala__weight-lr": 0.0, "fedala__layers": 0}
    ala, average = run("fedala", **settings, **fixed), run("fedavg", **settings)
    final = "final/params.safetensors"
    assert (ala.path / final).read_bytes() == (average.path / final).read_bytes()
    assert ala.summary["accuracy"] == average.summary["accuracy"]
    # It did mix: some have weights, and all of them are 1.
    kept = [ala.tensors(str(f)) for f in sorted((ala.path / "memory").rglob("*.safe*"))]
    weights = [leaf for m in kept for leaf in m.get("weights", {}).values()]
    assert weights
    assert all(torch.equal(leaf, torch.ones_like(leaf)) for leaf in weights)
