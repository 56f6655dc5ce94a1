import json
from dataclasses import replace

import pytest
import torch
from prototype_replies import INITIAL, A, B, classes, half, parts, reply, same_models
from torch import nn

import client_apps.fedproto
from client_apps.fedproto import LocalFedProto
from fedapp.algorithm import LocalTask
from fedapp.data.samples import Samples
from fedapp.models import Classifier, state_of
from fedapp.prototypes import Bank
from fedapp.turn import check_update
from strategies.fedproto import FedProto

SIX = 6
"""Clients of the tiny runs, all sampled in each of two rounds."""


def server(**changes):
    return half(FedProto, "fedproto", **changes)


def client(**changes):
    return half(LocalFedProto, "fedproto", **changes)


def after(rule, turn, *replies, state=None):
    params, begun = rule.init(INITIAL)
    _, state = rule.update(params, state or begun, list(replies), turn)
    return state


@pytest.mark.parametrize(
    ("weighting", "first"), [("uniform", [1, 2]), ("count", [4 / 3, 4 / 3])]
)
def test_one_round_of_two_clients(make_turn, weighting, first):
    state = after(server(weighting=weighting), make_turn(), reply(**A), reply(**B))
    bank = Bank.of_state(state["prototypes"])
    torch.testing.assert_close(bank.values, torch.tensor([first, [0.0, 3], [0, 0]]))
    assert bank.known.tolist() == [True, True, False]


def test_a_class_that_is_absent_next_round_keeps_its_prototype(make_turn):
    rule = server()
    state = after(rule, make_turn(), reply(**A), reply(**B))
    state = after(rule, make_turn(round=2), reply(**A), state=state)
    sent = rule.broadcast({}, state, make_turn(round=3))
    assert sent["protos"]["values"].tolist() == [[2, 0], [0, 3]]
    assert sent["classes"]["values"].tolist() == [0, 1]


def test_the_order_of_replies_changes_no_bit(make_turn):
    one = after(server(), make_turn(), reply(**A), reply(**B))
    other = after(server(), make_turn(), reply(**B), reply(**A))
    values = [state["prototypes"]["values"] for state in (one, other)]
    assert torch.equal(*values)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"classes": classes(3)}, "class 3; classes are 0 to 2"),
        ({"counts": [-2.0]}, "-2 samples of class 0"),
        ({"protos": [[float("nan"), 0]]}, "protos/values has a NaN"),
        ({"protos": [[1.0, 0, 0]]}, r"shape \(1, 3\) instead of \('any', 2\)"),
        ({"classes": torch.tensor([0])}, "int64 instead of torch.int32"),
    ],
)
def test_replies_that_are_dropped(make_turn, changes, problem):
    rule, turn = server(), make_turn()
    _, state = rule.init(INITIAL)

    def judge(**tensors):
        update = reply(**tensors)
        check_update(update, rule.expects({}, state, turn))
        rule.check(update, state, turn)

    judge(**A)
    with pytest.raises(ValueError, match=problem):
        judge(**(A | changes))


def one_weight(weight: float = 2.0, **changes) -> LocalTask:
    """Return a task whose head is zero: cross-entropy does not move the encoder."""
    model = Classifier(nn.Linear(1, 1, bias=False), 1, 2)
    with torch.no_grad():
        model.encoder.weight.fill_(weight)
        model.head.weight.zero_()
        model.head.bias.zero_()
    bank = Bank(torch.tensor([[1.0], [0.0]]), torch.tensor([True, False]))
    known = parts(protos=bank.values[:1], classes=classes(0))
    task = LocalTask(
        model=model,
        initial=state_of(model),
        received=known,
        labelled=Samples(torch.tensor([[3.0], [5.0]]), torch.tensor([0, 1])),
        classes=2,
        seed=0,
        client=0,
        lr=0.01,
        epochs=1,
        batch_size=2,
    )
    return replace(task, **changes)


@pytest.mark.parametrize("lam", [0.5, 2.0])
def test_one_step_by_hand(lam):
    # Only the sample of class 0 is pulled: d/dw (3 w - 1)^2 = 2 (3 w - 1) 3 at w = 2.
    _, memory = client(lam=lam).train(one_weight(), {})
    moved = memory["model"]["encoder.weight"].item()
    assert moved == pytest.approx(2 - 0.01 * lam * 2 * 5 * 3)


def test_a_weight_that_came_with_the_message_wins():
    task = one_weight(scalars={"lam": 0.5})
    _, memory = client(lam=9.0).train(task, {})
    assert memory["model"]["encoder.weight"].item() == pytest.approx(2 - 0.01 * 15)


def test_prototypes_are_means_under_the_final_weights():
    update, memory = client(lam=1.0).train(one_weight(), {})
    weight = memory["model"]["encoder.weight"].item()
    sent = update.sent["protos"]["values"]
    torch.testing.assert_close(sent, torch.tensor([[3.0], [5.0]]) * weight)
    assert update.sent["counts"]["values"].tolist() == [1, 1]
    assert update.metrics["alignment-gradient"] == pytest.approx(2 * 5)
    assert update.metrics["spread"] == 0


def test_a_client_with_one_class_sends_one_prototype():
    samples = Samples(torch.tensor([[3.0], [5.0]]), torch.tensor([1, 1]))
    update, _ = client().train(one_weight(labelled=samples), {})
    assert update.sent["classes"]["values"].tolist() == [1]
    assert update.sent["protos"]["values"].tolist() == [[8.0]]


def test_nothing_to_align_with_is_plain_training(once):
    assert same_models(once("local"), once("fedproto", fedproto__lam=0.0))
    one = {"rounds__count": 1}
    assert same_models(once("local", **one), once("fedproto", **one))
    assert not same_models(once("local"), once("fedproto"))


def test_diagnostics_change_no_bit_of_training(once):
    told, silent = once("fedproto"), once("fedproto", fedproto__diagnostics=False)
    assert same_models(told, silent)
    # Four numbers of four bytes from each client in each round.
    up = [done.summary["traffic"]["up_bytes"] for done in (told, silent)]
    assert up[0] - up[1] == 2 * SIX * 16


def test_traffic_is_prototypes_of_known_and_present_classes(once):
    done = once("fedproto", fedproto__diagnostics=False)
    manifest = json.loads((done.path / "manifest.json").read_text())
    held = [len(plan["classes"]) for plan in manifest["clients"]]
    known = len({label for plan in manifest["clients"] for label in plan["classes"]})
    width = 200
    # Numbers of classes take four bytes each; counts are in the specification's d + 1.
    traffic = done.summary["traffic"]
    assert traffic["down_bytes"] == SIX * 4 * (width + 1) * known
    assert traffic["up_bytes"] == 2 * sum(4 * (width + 2) * n for n in held)


def test_a_schedule_sends_its_weight(make_turn):
    rule = server(schedule="linear", warm_up=0.4, lam=2.0)
    _, state = rule.init(INITIAL)
    sent = []
    for round_ in (1, 2, 5, 9):
        (task, *_) = rule.tasks({}, state, make_turn(round=round_))
        sent.append(task.scalars["lam"])
    # Four of ten rounds: t / 4 of 2, t = round - 1.
    assert sent == [0, 0.5, 2, 2]
    (task, *_) = server().tasks({}, state, make_turn())
    assert task.scalars == {}


def test_both_predictions_are_scored(once):
    rows = once("fedproto", rounds__count=1).rows("metrics.csv")
    assert [row["model"] for row in rows[:2]] == ["own", "nearest"]
    assert len(rows) == 2 * SIX


def test_what_rounds_showed_is_written_down(once):
    first, second = once("fedproto").rows("fedproto/rounds.csv")
    assert (first["alignment_gradient"], first["drift"]) == ("0.0", "")
    assert float(second["alignment_gradient"]) > 0
    assert float(second["drift"]) > 0
    assert 0 < float(second["angle_min"]) < float(second["angle_mean"]) < 180


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda sent: sent["classes"]["values"].add_(90), "a prototype of class 9"),
        (lambda sent: sent["counts"]["values"].neg_(), "samples of class"),
    ],
)
def test_a_bad_reply_is_dropped_and_its_client_named(run, monkeypatch, change, problem):
    right = client_apps.fedproto.reported
    told = []

    def wrong(found):
        sent = right(found)
        told.append(sent)
        if len(told) == 3:
            change(sent)
        return sent

    monkeypatch.setattr(client_apps.fedproto, "reported", wrong)
    done = run("fedproto", rounds__count=1, rounds__min_replies=0.8)
    (failure,) = done.summary["failures"]
    assert failure["client"] == 2
    assert problem in failure["cause"]


def test_a_class_nobody_has_is_never_proposed(once):
    done = once(
        "fedproto",
        rounds__count=1,
        data__clients=3,
        data__partition="label-subset",
        data__classes_per_client=1,
        data__shift="none",
    )
    state = done.tensors("final/state.safetensors")["prototypes"]
    assert int(state["known"].sum()) == 3
    assert done.summary["status"] == "completed"
    unknown = state["values"][~state["known"]]
    assert torch.equal(unknown, torch.zeros_like(unknown))
