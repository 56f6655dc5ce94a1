from dataclasses import replace

import pytest
import torch
from conftest import line_model, line_task

from client_apps.local_only import LocalAlone


def test_nothing_travels(run):
    traffic = run("local").summary["traffic"]
    assert traffic["down_bytes"] == traffic["up_bytes"] == 0
    assert traffic["evaluate_down_bytes"] == 0


def test_training_goes_on_from_the_own_model():
    task = line_task([(1.0, 3.0)], model=line_model(1.0))
    _, memory = LocalAlone().train(task, {})
    once = memory["model"]["encoder.weight"].clone()
    _, memory = LocalAlone().train(replace(task, round=2), memory)
    twice = memory["model"]["encoder.weight"]
    # (2 - error grows smaller): y = e h x moves from 1 to 1.2^2, then further.
    assert 1.0 < once.item() < twice.item()
    assert once.item() == torch.tensor(1.2).item()


def test_all_rounds_lets_everyone_train_every_time(run):
    settings = {"rounds__fraction": 0.34, "rounds__count": 2}
    some = run("local", **settings)
    every = run("local", **settings, **{"local-only__all-rounds": True})

    def trained(done):
        return sum(
            1
            for row in done.rows("timing.csv")
            if row["client"] and row["phase"] == "train"
        )

    assert (trained(some), trained(every)) == (2 * 2, 2 * 6)


def test_a_client_that_never_trained_is_flagged_and_left_out_of_the_tail(run):
    done = run("local", rounds__count=1, rounds__fraction=0.5)
    clients = done.summary["per_client"]
    trained = [c for c in clients if c["trained"]]
    assert (len(clients), len(trained)) == (6, 3)
    accuracy = done.summary["accuracy"]
    assert accuracy["worst"] == min(c["accuracy"] for c in trained)
    assert accuracy["mean"] == pytest.approx(sum(c["accuracy"] for c in clients) / 6)


def test_clients_never_influence_each_other(run):
    # The same partition for all; what differs is who trains beside client 0.
    many = run("local", rounds__count=2)
    few = run("local", rounds__count=2, data__unseen_clients=3)
    for client in range(3):
        home = f"memory/{client:06}/r000002-00.safetensors"
        assert (many.path / home).read_bytes() == (few.path / home).read_bytes()
