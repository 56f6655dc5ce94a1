from dataclasses import replace

import pytest
import torch
from conftest import line_model, line_task, normed_task

from client_apps.fedper import LocalFedPer
from client_apps.fedrep import LocalFedRep
from fedapp.models import state_of
from fedapp.params import select
from strategies.fedper import FedPer

ONCE = LocalFedRep(head_epochs=1, refit_head=False)


def client(points, head, **changes):
    """Return a task and a memory: encoder 1, own head ``head``."""
    start = state_of(line_model())
    task = line_task(points, received={"encoder": select(start, "encoder")}, **changes)
    return task, {"head": {"weight": torch.tensor([[head]])}}


def normed_client(**changes):
    task = normed_task(8, **changes)
    return replace(task, received={"encoder": select(task.initial, "encoder")})


def test_one_round_by_hand(make_turn):
    # A: head 2 - .1 * (2 - 1) = 1.9; then e - .1 * (1.9 - 1) * 1.9.
    # B: head -1 - .1 * (-1 - 2) = -.7; then e - .1 * (-.7 - 2) * -.7.
    results = [
        ONCE.train(*client(points, head))
        for points, head in [([(1.0, 1.0)], 2.0), ([(1.0, 2.0)] * 3, -1.0)]
    ]
    encoders = [u.sent["encoder"]["weight"].item() for u, _ in results]
    heads = [memory["head"]["weight"].item() for _, memory in results]
    assert heads == pytest.approx([1.9, -0.7])
    assert encoders == pytest.approx([0.829, 0.811])
    params, _ = FedPer().update({}, {}, [u for u, _ in results], make_turn())
    assert params["weight"].item() == pytest.approx(0.8155)


def test_the_head_trains_for_its_epochs_and_the_encoder_for_the_shared_ones():
    task, memory = client([(1.0, 1.0)], 2.0, epochs=2)
    update, after = LocalFedRep(3, refit_head=False).train(task, memory)
    head = 1 + 0.9**3
    encoder = 1.0
    for _ in range(2):
        encoder -= 0.1 * (head * encoder - 1) * head
    assert after["head"]["weight"].item() == pytest.approx(head)
    assert update.sent["encoder"]["weight"].item() == pytest.approx(encoder)


def test_without_epochs_of_the_encoder_it_keeps_every_bit_and_buffer():
    task = normed_client(epochs=0)
    update, memory = LocalFedRep(3, refit_head=False).train(task, {})
    received = task.received["encoder"]
    assert all(torch.equal(update.sent["encoder"][n], received[n]) for n in received)
    assert not torch.equal(memory["head"]["weight"], task.initial["head.weight"])


def test_momentum_and_weight_decay_of_the_heads_pass_do_not_reach_the_encoders():
    # One optimizer for both passes would go on moving the head.
    task = normed_client()
    _, once = LocalFedRep(2, refit_head=False).train(replace(task, epochs=0), {})
    _, both = LocalFedRep(2, refit_head=False).train(task, {})
    assert torch.equal(once["head"]["weight"], both["head"]["weight"])
    assert torch.equal(once["head"]["bias"], both["head"]["bias"])


def test_a_joint_pass_is_fedper_bit_for_bit(run, monkeypatch):
    monkeypatch.setattr(LocalFedRep, "passes", LocalFedPer.passes)
    settings = {"rounds__count": 3, "rounds__fraction": 0.5}
    assert run("fedrep", **settings).bits() == run("fedper", **settings).bits()


def test_without_the_heads_pass_the_encoder_is_fedbabus_bit_for_bit(run):
    settings = {"rounds__count": 2, "local__weight-decay": 0.01}
    rep = run("fedrep", **settings, **{"fedrep__head-epochs": 0})
    babu = run("fedbabu", **settings)
    final = "final/params.safetensors"
    assert (rep.path / final).read_bytes() == (babu.path / final).read_bytes()


def test_without_a_refit_the_own_head_is_scored_as_it_is():
    task, memory = client([(1.0, 1.0)], 2.0)
    ((name, predictor),) = ONCE.predictors(task, memory)
    assert (name, predictor(torch.ones(1, 1)).item()) == ("personal", 2.0)


def test_a_refit_trains_the_head_on_the_received_encoder_and_is_forgotten():
    task, memory = client([(1.0, 1.0)], 2.0)
    task.received["encoder"]["weight"].fill_(3.0)
    rule = LocalFedRep(2, refit_head=True)
    for _ in range(2):
        with torch.no_grad():
            ((name, predictor),) = rule.predictors(task, memory)
        # Each step takes .1 * (3 h - 1) * 3 off the head: 2, .5, .35.
        found = (predictor.encoder.weight.item(), predictor.head.weight.item())
        assert (name, found) == ("personal", (3.0, pytest.approx(0.35)))
        assert not predictor.training
    assert memory["head"]["weight"].item() == 2.0


def test_a_refit_that_diverges_is_undone_and_flagged():
    task, memory = client([(1.0, 1e30)], 2.0, lr=1e20)
    ((name, predictor),) = LocalFedRep(5, refit_head=True).predictors(task, memory)
    assert (name, predictor.head.weight.item()) == ("untuned", 2.0)
