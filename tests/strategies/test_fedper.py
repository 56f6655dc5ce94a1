import pytest
import torch
from conftest import line_model, line_task

from client_apps.fedper import LocalFedPer
from fedapp.models import state_of
from fedapp.params import select
from strategies.fedper import FedPer


def client(points, head):
    """Return a task and a memory: encoder 1, own head ``head``."""
    start = state_of(line_model())
    task = line_task(points, received={"encoder": select(start, "encoder")})
    return task, {"head": {"weight": torch.tensor([[head]])}}


def test_one_round_by_hand(make_turn):
    # y = h e x with e = 1. A: h = 2, (1, 1), error 1: e - .1 * 2, h - .1 * 1.
    # B: h = -1, three times (1, 2), error -3: e - .1 * 3, h - .1 * -3.
    results = [
        LocalFedPer().train(*client(points, head))
        for points, head in [([(1.0, 1.0)], 2.0), ([(1.0, 2.0)] * 3, -1.0)]
    ]
    encoders = [u.sent["encoder"]["weight"].item() for u, _ in results]
    heads = [memory["head"]["weight"].item() for _, memory in results]
    assert encoders == pytest.approx([0.8, 0.7])
    assert heads == pytest.approx([1.9, -0.7])
    params, _ = FedPer().update({}, {}, [u for u, _ in results], make_turn())
    assert params["weight"].item() == pytest.approx(0.725)


def test_no_head_is_ever_in_a_message():
    update, _ = LocalFedPer().train(*client([(1.0, 1.0)], 2.0))
    assert update.sent.keys() == {"encoder"}
    params, _ = FedPer().init(state_of(line_model()))
    assert params.keys() == {"weight"}


def test_a_client_starts_from_the_common_head():
    task, _ = client([(1.0, 1.0)], 2.0)
    ((name, predictor),) = LocalFedPer().predictors(task, {})
    assert name == "personal"
    assert torch.equal(predictor.head.weight, task.initial["head.weight"])


def test_evaluation_takes_the_received_encoder_and_the_own_head():
    task, memory = client([(1.0, 1.0)], 2.0)
    task.received["encoder"]["weight"].fill_(7.0)
    ((_, predictor),) = LocalFedPer().predictors(task, memory)
    assert predictor(torch.ones(1, 1)).item() == 14.0


def test_a_client_that_skips_rounds_keeps_its_head_and_improves_on_it(run):
    done = run("fedper", rounds__count=6, rounds__fraction=0.34, seed=3)
    heads = {
        home.name: sorted(file.name for file in home.iterdir())
        for home in (done.path / "memory").iterdir()
    }
    last = {
        row["client"]: int(row["last_trained_round"])
        for row in done.rows("metrics.csv")
        if row["round"] == "6"
    }
    assert any(0 < trained < 6 for trained in last.values())
    for client_, round_ in last.items():
        files = heads.get(f"{int(client_):06}", [])
        assert bool(files) == (round_ > 0)
        if files:
            assert files[-1] == f"r{round_:06}-00.safetensors"


def test_traffic_is_the_encoder_both_ways(run):
    done = run("fedper")
    params = done.tensors("final/params.safetensors")["params"]
    encoder = sum(4 * leaf.numel() for leaf in params.values())
    traffic = done.summary["traffic"]
    assert traffic["down_bytes"] == traffic["up_bytes"] == 2 * 6 * encoder
