import json
from dataclasses import replace

import pytest
import torch
from prototype_replies import INITIAL, classes, half, reply, same_models
from torch.nn import functional

from fedapp.prototypes import Bank
from fedapp.turn import check_update
from strategies.fedmps import FedMPS

OFF = {f"fedmps__{part}_weight": 0.0 for part in ("high", "low", "soft")}


def server(**changes):
    return half(FedMPS, "fedmps", **changes)


def two(**changes):
    first = {"protos_high": [[1.0, 0]], "protos_low": [[1.0, 0, 0]]}
    second = {"protos_high": [[0.0, 1], [1, 1]], "protos_low": [[0.0, 0, 2], [1, 1, 1]]}
    return [
        reply(0, **first, classes=classes(0)),
        reply(1, **(second | changes), classes=classes(0, 2)),
    ]


def after(rule, turn, updates):
    params, state = rule.init(INITIAL)
    return rule.update(params, state, updates, turn)[1]


def test_both_levels_are_uniform_means(make_turn):
    state = after(server(), make_turn(), two())
    high, low = (Bank.of_state(state[n]) for n in ("protos-high", "protos-low"))
    assert high.values.tolist() == [[0.5, 0.5], [0, 0], [1, 1]]
    assert low.values.tolist() == [[0.5, 0, 1], [0, 0, 0], [1, 1, 1]]
    assert high.known.tolist() == low.known.tolist() == [True, False, True]


def test_soft_labels_are_mean_logits_of_the_servers_head(make_turn):
    state = after(server(server_epochs=0), make_turn(), two())
    # An untrained head of zeros has logits of zero.
    assert Bank.of_state(state["soft"]).values.tolist() == [[0, 0, 0]] * 3
    trained = after(server(server_lr=0.1, server_epochs=30), make_turn(), two())
    head, soft = trained["server-head"], Bank.of_state(trained["soft"])
    rows = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    logits = functional.linear(rows, head["weight"], head["bias"])
    torch.testing.assert_close(soft.values[0], logits[:2].mean(0))
    torch.testing.assert_close(soft.values[2], logits[2])
    assert soft.known.tolist() == [True, False, True]
    # Each class has a larger logit of its own than the other classes' rows give it.
    assert soft.values[0, 0] > soft.values[2, 0]
    assert soft.values[2, 2] > soft.values[0, 2]


def test_the_servers_head_depends_on_seed_and_round_alone(make_turn):
    def head(**changes):
        turn = replace(make_turn(), **changes)
        return after(server(server_batch_size=1), turn, two())["server-head"]["weight"]

    with torch.random.fork_rng():
        torch.manual_seed(9)
        one = head()
    assert torch.equal(one, head())
    assert not torch.equal(one, head(round=2))
    assert not torch.equal(one, head(seed=1))


def test_the_servers_head_goes_on_from_round_to_round(make_turn):
    rule = server()
    state = after(rule, make_turn(), two())
    once = state["server-head"]["weight"]
    _, state = rule.update({}, state, two(), make_turn(round=2))
    fresh = after(rule, make_turn(round=2), two())["server-head"]["weight"]
    assert not torch.equal(state["server-head"]["weight"], fresh)
    assert not torch.equal(state["server-head"]["weight"], once)


def test_a_class_that_is_absent_keeps_everything(make_turn):
    rule = server()
    state = after(rule, make_turn(), two())
    _, later = rule.update({}, state, two()[:1], make_turn(round=2))
    for name in ("protos-high", "protos-low", "soft"):
        old, new = Bank.of_state(state[name]), Bank.of_state(later[name])
        assert torch.equal(old.values[2], new.values[2])
        assert new.known.tolist() == [True, False, True]


def test_early_layers_of_two_sizes_are_refused_with_both_clients(make_turn):
    wide = two(protos_low=torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"clients 0 and 1 have 3 and 5 values"):
        after(server(), make_turn(), wide)


def test_after_the_first_round_a_reply_of_another_size_is_dropped(make_turn):
    rule, turn = server(), make_turn(round=2)
    state = after(rule, make_turn(), two())
    expected = rule.expects({}, state, turn)
    check_update(two()[1], expected)
    with pytest.raises(ValueError, match=r"protos-low/values has shape \(2, 5\)"):
        check_update(two(protos_low=torch.ones(2, 5))[1], expected)


def test_levels_must_have_the_same_classes(make_turn):
    rule, turn = server(), make_turn()
    _, state = rule.init(INITIAL)
    rule.check(two()[1], state, turn)
    with pytest.raises(ValueError, match="1 rows of protos-low for 2 classes"):
        rule.check(two(protos_low=torch.ones(1, 3))[1], state, turn)


def test_without_its_terms_it_is_local_training(once):
    small = {"model__name": "cnn-small"}
    alone = once("local", **small)
    assert same_models(alone, once("fedmps", **small, **OFF))
    for part in OFF:
        changed = once("fedmps", **small, **(OFF | {part: 1.0}))
        assert not same_models(alone, changed)


def test_traffic_is_two_levels_and_soft_labels(once):
    done = once("fedmps", rounds__count=2)
    manifest = json.loads((done.path / "manifest.json").read_text())
    held = [len(plan["classes"]) for plan in manifest["clients"]]
    known = len({label for plan in manifest["clients"] for label in plan["classes"]})
    high = low = 200
    traffic = done.summary["traffic"]
    assert traffic["down_bytes"] == 6 * 4 * known * (high + low + 10 + 1)
    assert traffic["up_bytes"] == 2 * sum(4 * n * (high + low + 1) for n in held)


def test_prototypes_are_means_of_unit_vectors(once):
    done = once("fedmps", rounds__count=1)
    state = done.tensors("final/state.safetensors")
    for name in ("protos-high", "protos-low"):
        norms = state[name]["values"].norm(dim=1)
        assert norms.max() <= 1 + 1e-6
        assert norms[state[name]["known"]].min() > 0.1
    rows = done.rows("metrics.csv")
    assert [row["model"] for row in rows[:2]] == ["own", "nearest"]
