import pytest
import torch
from conftest import line_model, line_task

from client_apps.sgd import LocalSGD
from fedapp.algorithm import Update
from fedapp.models import state_of
from strategies.fedavg import FedAvg


def trained(points, weight=1.0):
    """Return the update of a client that fits ``y = w x`` in one full-batch step.

    The head stays 1: its gradient would be that of a second weight.
    """
    model = line_model(encoder=weight)
    task = line_task(points, model=model, received={"model": state_of(model)})
    model.head.weight.requires_grad_(False)
    update, _ = LocalSGD().train(task, {})
    return update


def one_weight(value: float, count: int) -> Update:
    return Update({"model": {"w": torch.tensor([value])}}, count)


def test_the_average_of_two_clients_by_hand(make_turn):
    # d/dw mean (w x - y)^2 / 2 at w = 1: client 1 (1 - 2) = -1; client 2 has points
    # (2, 0), (1, 0), (1, 1), so (2 * 2 + 1 + 0) / 3 = 5/3.
    first, second = 1 - 0.1 * -1, 1 - 0.1 * 5 / 3
    updates = [one_weight(first, 1), one_weight(second, 3)]
    params, _ = FedAvg().update({}, {}, updates, make_turn())
    assert (first, second) == (pytest.approx(1.1), pytest.approx(0.833333, abs=1e-6))
    assert params["w"].item() == pytest.approx(0.9)


def test_local_steps_by_hand():
    # Both weights move: the head's gradient is the encoder's, both being 1.
    assert trained([(1.0, 2.0)]).sent["model"]["encoder.weight"].item() == (
        pytest.approx(1.1)
    )
    second = trained([(2.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
    assert second.sent["model"]["encoder.weight"].item() == pytest.approx(0.8333333)
    assert second.num_examples == 3


def test_clients_that_return_what_they_got_change_nothing(make_turn):
    params = {"w": torch.randn(100, generator=torch.Generator().manual_seed(3))}
    updates = [Update({"model": params}, count) for count in (3, 1, 7)]
    after, _ = FedAvg().update(params, {}, updates, make_turn())
    assert torch.equal(after["w"], params["w"])


def test_one_client_is_plain_sgd_bit_for_bit(run):
    settings = {"data__clients": 1, "data__shift": "none"}
    federated = run("fedavg", **settings, local__epochs=1)
    alone = run("local", **settings, local__epochs=1)
    model = federated.tensors("final/params.safetensors")["params"]
    (memory,) = sorted((alone.path / "memory" / "000000").iterdir())[-1:]
    own = alone.tensors(str(memory))["model"]
    assert model.keys() == own.keys()
    assert all(torch.equal(model[name], own[name]) for name in model)
    assert federated.summary["accuracy"] == alone.summary["accuracy"]
