import json

import pytest
import torch
from prototype_replies import INITIAL, classes, half, parts
from torch import nn
from torch.nn import functional

from client_apps.fednh import LocalFedNH, UnitHead
from fedapp.algorithm import LocalTask, Update, seeded
from fedapp.data.samples import Samples
from fedapp.models import Classifier, state_of
from fedapp.prototypes import unit
from strategies.fednh import FedNH, next_prototypes, spread_out

R = 2**-0.5


def server(**changes):
    return half(FedNH, "fednh", **changes)


def update(values, numbers, counts, *, count=10, encoder=1.0, scale=1.0):
    sent = parts(
        protos=torch.tensor(values),
        classes=classes(*numbers),
        counts=torch.tensor(counts),
        scale=torch.tensor([scale]),
    )
    return Update({**sent, "encoder": {"w": torch.tensor([encoder])}}, count)


def test_one_class_by_hand():
    # n mu of two clients: 30 (.6, .8) and 10 (1, 1) / sqrt 2.
    sums = torch.tensor([[30 * 0.6 + 10 * R, 30 * 0.8 + 10 * R]], dtype=torch.float64)
    old = torch.tensor([[1.0, 0]])
    torch.testing.assert_close(unit(sums).float(), torch.tensor([[0.627961, 0.778245]]))
    new = next_prototypes(old, sums, rho=0.9)
    torch.testing.assert_close(new, torch.tensor([[0.996749, 0.080569]]))
    turned = torch.rad2deg((old * new).sum().arccos()).item()
    assert turned == pytest.approx(4.62127, abs=1e-3)


def test_a_client_sends_the_mean_direction_of_a_class_times_its_samples():
    model = Classifier(nn.Identity(), 2, 3)
    rows = torch.tensor([[3.0, 0], [0, 5], [7, 0], [0, 2]])
    task = LocalTask(
        model=model,
        initial=state_of(model),
        received={
            "encoder": {},
            "protos": {"values": torch.eye(3)[:, :2]},
            "scale": {"values": torch.tensor([1.0])},
        },
        labelled=Samples(rows, torch.tensor([0, 0, 0, 2])),
        classes=3,
        seed=0,
        client=0,
        lr=0.1,
        epochs=1,
        batch_size=4,
    )
    sent = LocalFedNH().train(task, {})[0].sent
    # Directions (1, 0), (0, 1), (1, 0) have the mean (2, 1) / 3; lengths do not count.
    first = 3 * torch.tensor([2.0, 1]) / 5**0.5
    expected = torch.stack([first, torch.tensor([0.0, 1])])
    torch.testing.assert_close(sent["protos"]["values"], expected)
    assert sent["classes"]["values"].tolist() == [0, 2]
    assert sent["counts"]["values"].tolist() == [3, 1]
    assert sent["scale"]["values"].item() != 1.0


def test_a_class_nobody_reports_and_rho_one_keep_their_bits():
    generator = torch.Generator().manual_seed(0)
    old = spread_out(5, 3, generator)
    sums = torch.randn(5, 3, generator=generator).double()
    sums[2] = 0
    assert torch.equal(next_prototypes(old, sums, rho=0.9)[2], old[2])
    assert torch.equal(next_prototypes(old, sums, rho=1.0), old)
    moved = next_prototypes(old, sums, rho=0.0)
    torch.testing.assert_close(moved[0], unit(sums).float()[0])


@pytest.mark.parametrize(("many", "width"), [(3, 8), (10, 4)])
def test_rows_start_with_length_one_and_apart(many, width):
    rows = spread_out(many, width, seeded(1))
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(many))
    if many <= width:
        torch.testing.assert_close(rows @ rows.T, torch.eye(many))
    assert torch.equal(rows, spread_out(many, width, seeded(1)))


def test_the_head_is_a_scaled_cosine():
    head = UnitHead(torch.eye(2), torch.tensor([10.0]))
    logits = head(torch.tensor([[3.0, 4]]))
    torch.testing.assert_close(logits, torch.tensor([[6.0, 8]]))
    chances = functional.softmax(logits, 1)
    torch.testing.assert_close(chances, torch.tensor([[0.119203, 0.880797]]))
    assert [name for name, _ in head.named_parameters()] == ["scale"]


@pytest.mark.parametrize(("weighting", "share"), [("count", 0.75), ("uniform", 0.5)])
def test_encoders_and_scales_are_averaged(make_turn, weighting, share):
    rule = server(weighting=weighting)
    params, state = rule.init(INITIAL)
    replies = [
        update([[10.0, 0]], [0], [10.0], count=10, encoder=1.0, scale=2.0),
        update([[0.0, 30]], [0], [30.0], count=30, encoder=5.0, scale=4.0),
    ]
    params, state = rule.update(params, state, replies, make_turn())
    assert params["w"].item() == pytest.approx(1 + 4 * share)
    assert state["scale"]["values"].item() == pytest.approx(2 + 2 * share)


def test_rows_have_length_one_after_every_round(once):
    done = once("fednh", rounds__count=2)
    rows = done.tensors("final/state.safetensors")["protos"]["values"]
    assert (rows.norm(dim=1) - 1).abs().max() < 1e-6


def test_rho_one_keeps_the_head_of_the_start(once):
    done = once("fednh", rounds__count=2, fednh__rho=1.0)
    rows = done.tensors("final/state.safetensors")["protos"]["values"]
    start = once("fednh", rounds__count=1, fednh__rho=1.0)
    before = start.tensors("final/state.safetensors")["protos"]["values"]
    assert torch.equal(rows, before)


def test_traffic_is_encoder_scale_and_prototypes(once):
    done = once("fednh", rounds__count=1)
    manifest = json.loads((done.path / "manifest.json").read_text())
    held = [len(plan["classes"]) for plan in manifest["clients"]]
    encoder = 4 * ((64 + 1) * 200 + (200 + 1) * 200)
    traffic = done.summary["traffic"]
    assert traffic["down_bytes"] == 6 * (encoder + 4 * (10 * 200 + 1))
    # Numbers of classes take four bytes each, beside direction and count.
    assert traffic["up_bytes"] == sum(encoder + 4 * (n * (200 + 2) + 1) for n in held)


def test_the_own_body_and_the_global_model_are_scored(once):
    rows = once("fednh", rounds__count=1).rows("metrics.csv")
    assert [row["model"] for row in rows[:2]] == ["personal", "global"]
    first, second = (
        [r["loss"] for r in rows if r["model"] == m] for m in ("personal", "global")
    )
    assert first != second


def test_a_client_that_never_trained_is_scored_with_the_global_model(once):
    done = once("fednh", rounds__count=1, data__unseen_clients=2)
    for row in done.rows("metrics.csv"):
        if row["client"] == "5" and row["model"] == "personal":
            personal = row["loss"]
        if row["client"] == "5" and row["model"] == "global":
            assert row["loss"] == personal


def test_replies_with_an_unknown_class_are_dropped(make_turn):
    rule = server()
    _, state = rule.init(INITIAL)
    good = update([[1.0, 0]], [2], [1.0])
    rule.check(good, state, make_turn())
    with pytest.raises(ValueError, match="class 3"):
        rule.check(update([[1.0, 0]], [3], [1.0]), state, make_turn())
