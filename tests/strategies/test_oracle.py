import pytest
import torch

from fedapp.algorithm import Update
from strategies.oracle import Oracle

WINDOWS = {"data__shift": "label-permutation", "data__shift_groups": "3"}


def test_a_cluster_is_the_mean_of_its_participants(make_turn):
    rule = Oracle(groups=(0, 2, 0, 2), num_clients=4)
    params, state = rule.init({"w": torch.tensor([7.0])})
    updates = [
        Update({"model": {"w": torch.tensor([value])}}, count, client=client)
        for client, value, count in ((0, 1.0, 10), (2, 3.0, 30))
    ]
    params, state = rule.update(params, state, updates, make_turn())
    assert state["cluster-0"]["w"].item() == 2.5
    assert state["cluster-2"]["w"].item() == 7.0
    mail = list(rule.personal(params, state, range(4), make_turn()))
    assert [t.payload["model"]["w"].item() for t in mail] == [2.5, 7.0, 2.5, 7.0]


def test_one_group_is_fedavg_bit_for_bit(run):
    settings = {"data__shift": "none", "rounds__fraction": 0.5}
    oracle, fedavg = run("oracle", **settings), run("fedavg", **settings)
    same = ("metrics.csv", "manifest.json")
    assert all(oracle.bits()[f] == fedavg.bits()[f] for f in same)
    model = oracle.tensors("final/state.safetensors")["cluster-0"]
    theirs = fedavg.tensors("final/params.safetensors")["params"]
    assert all(torch.equal(model[name], leaf) for name, leaf in theirs.items())
    assert oracle.summary["traffic"] == fedavg.summary["traffic"]


def test_one_client_a_group_is_local_training_bit_for_bit(run):
    settings = {"data__shift_groups": "6", "rounds__count": 3}
    oracle, alone = run("oracle", **settings), run("local", **settings)
    final = oracle.tensors("final/state.safetensors")
    for client in range(6):
        home = f"memory/{client:06}/r000003-00.safetensors"
        own = alone.tensors(home)["model"]
        assert all(
            torch.equal(final[f"cluster-{client}"][n], t) for n, t in own.items()
        )
    scores = [[c["accuracy"] for c in r.summary["per_client"]] for r in (oracle, alone)]
    assert scores[0] == scores[1]


def test_devices_have_no_oracle(make_turn):
    with pytest.raises(ValueError, match="only a simulation knows"):
        Oracle(num_clients=3).init({"w": torch.tensor([1.0])})
