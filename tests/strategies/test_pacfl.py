from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import line_task

from client_apps.pacfl import LocalPacfl
from fedapp.algorithm import Update
from fedapp.data.samples import Samples
from fedapp.params import num_bytes
from strategies.pacfl import Pacfl, clusters_of

INITIAL = {"w": torch.tensor([0.5])}


def strategy(**changes):
    values = {"beta": 20.0, "n_clusters": 0, "proximity": "min_elem_abs"}
    return Pacfl(**values | {"linkage": "average", "num_clients": 4} | changes)


def at(degrees, client, count=10):
    """Return the signature of a client: one direction in the plane."""
    angle = np.radians(degrees)
    vectors = torch.tensor([[np.cos(angle)], [np.sin(angle)]], dtype=torch.float32)
    return Update({"sketch": {"vectors": vectors}}, count, client=client)


def model(value, client, count):
    return Update({"model": {"w": torch.tensor([value])}}, count, client=client)


def signed(rule, make_turn, directions, state=None, round_=1):
    """Return the state after signatures, given in degrees by client."""
    turn = make_turn(phase="signature", round=round_)
    updates = [at(degrees, client) for client, degrees in directions.items()]
    start = rule.init(INITIAL)[1] if state is None else state
    _, after = rule.update({}, start, updates, turn)
    turn.bank.commit(round_)
    return after


def served(rule, state, make_turn):
    tasks = rule.personal({}, state, range(4), make_turn(phase="evaluate"))
    return [task.payload["model"]["w"].item() for task in tasks]


PAIRS = {0: 0.0, 1: 70.0, 2: 5.0, 3: 65.0}


def test_clients_are_clustered_once_by_their_signatures(make_turn):
    rule = strategy()
    assert rule.phases(make_turn()) == ("signature", "train")
    state = signed(rule, make_turn, PAIRS)
    assert clusters_of(state).tolist() == [0, 1, 0, 1]
    assert served(rule, state, make_turn) == [0.5] * 4
    assert rule.phases(make_turn(round=2)) == ("train",)


def test_each_cluster_is_the_mean_of_its_participants_and_an_empty_one_stays(make_turn):
    rule = strategy()
    state = signed(rule, make_turn, PAIRS)
    updates = [model(2.0, 0, 10), model(6.0, 2, 30)]
    _, state = rule.update({}, state, updates, make_turn())
    assert served(rule, state, make_turn) == [(20 + 180) / 40, 0.5, 5.0, 0.5]


def test_a_number_of_clusters_replaces_beta(make_turn):
    state = signed(strategy(n_clusters=3), make_turn, PAIRS)
    assert len(set(clusters_of(state).tolist())) == 3


def late(rule, make_turn, degrees, client=3):
    """Let all but one sign, train them, and let that one sign in round 2."""
    others = {k: d for k, d in PAIRS.items() if k != client}
    state = signed(rule, make_turn, others)
    updates = [model(3.0, 0, 1), model(9.0, 1, 1)]
    _, state = rule.update({}, state, updates, make_turn())
    turn = make_turn(phase="signature", round=2)
    assert rule.phases(turn) == ("signature", "train")
    assert rule.participants(state, turn) == [client]
    return signed(rule, make_turn, {client: degrees}, state, round_=2)


def test_a_client_that_signs_late_joins_the_nearest_cluster(make_turn):
    rule = strategy()
    state = late(rule, make_turn, 55.0)
    assert clusters_of(state).tolist() == [0, 1, 0, 1]
    assert served(rule, state, make_turn) == [3.0, 9.0, 3.0, 9.0]


def test_a_client_far_from_all_opens_a_cluster_from_the_nearest_model(make_turn):
    rule = strategy()
    state = late(rule, make_turn, 45.0)  # 25 from client 1, 42.5 from 0 and 2
    assert clusters_of(state).tolist() == [0, 1, 0, 2]
    assert served(rule, state, make_turn) == [3.0, 9.0, 3.0, 9.0]
    _, state = rule.update({}, state, [model(1.0, 3, 1)], make_turn(round=2))
    assert served(rule, state, make_turn) == [3.0, 9.0, 3.0, 1.0]


def test_no_cluster_is_opened_beyond_a_fixed_number(make_turn):
    state = late(strategy(n_clusters=2), make_turn, 45.0)
    assert clusters_of(state).tolist() == [0, 1, 0, 1]


def test_unseen_clients_join_the_nearest_and_influence_nobody(make_turn):
    rule = strategy(unseen_clients=1, beta=35.0)
    state = signed(rule, make_turn, {0: 0.0, 1: 70.0, 3: 30.0})
    assert clusters_of(state).tolist() == [0, 1, -1, 0]
    # Client 2 is 40 from client 0 and 30 from client 1; it is near to client 3 only.
    state = signed(rule, make_turn, {2: 40.0}, state, round_=2)
    assert clusters_of(state).tolist() == [0, 1, 1, 0]


def test_an_unseen_client_opens_no_cluster_that_nobody_would_train(make_turn):
    rule = strategy(unseen_clients=1)
    state = signed(rule, make_turn, {0: 0.0, 1: 80.0, 2: 5.0, 3: 45.0})
    assert clusters_of(state).tolist() == [0, 1, 0, 1]


def test_who_has_not_signed_does_not_train_and_gets_the_largest_cluster(make_turn):
    rule = strategy()
    state = signed(rule, make_turn, {0: 0.0, 1: 70.0, 3: 66.0})
    _, state = rule.update({}, state, [model(9.0, 1, 1)], make_turn())
    assert rule.participants(state, make_turn()) == [0, 1, 3]
    assert served(rule, state, make_turn) == [0.5, 9.0, 9.0, 9.0]


def test_nobody_is_clustered_before_one_that_trains_has_signed(make_turn):
    rule = strategy(unseen_clients=1)
    state = signed(rule, make_turn, {3: 30.0})
    assert clusters_of(state).tolist() == [-1] * 4
    assert served(rule, state, make_turn) == [0.5] * 4
    state = signed(rule, make_turn, {0: 0.0, 1: 70.0, 2: 5.0}, state, round_=2)
    assert clusters_of(state).tolist() == [0, 1, 0, 0]


def test_vectors_must_have_length_one(make_turn):
    rule, turn = strategy(), make_turn(phase="signature")
    rule.check(at(30.0, 0), {}, turn)
    long = Update({"sketch": {"vectors": torch.tensor([[2.0], [0.0]])}}, 1)
    with pytest.raises(ValueError, match="another length than 1"):
        rule.check(long, {}, turn)


def signing(images, labels, **changes):
    samples = Samples(images, torch.tensor(labels), **changes)
    task = line_task([(1.0, 1.0)], phase="signature")
    update, memory = LocalPacfl(directions=2).train(replace(task, labelled=samples), {})
    assert memory == {}
    return update


def test_a_client_sends_directions_of_its_classes_and_no_model():
    images = torch.randn(6, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    update = signing(images, [0, 3, 3, 3, 3, 0])
    assert update.sent.keys() == {"sketch"}
    vectors = update.sent["sketch"]["vectors"]
    assert (vectors.shape, vectors.dtype) == ((4, 4), torch.float32)
    assert (update.num_examples, update.metrics) == (6, {"classes": 2})
    own = images.flatten(1)[[1, 2, 3, 4]].T.double()
    expected = np.linalg.svd(own.numpy())[0][:, :2]
    found = np.abs((vectors[:, 2:].numpy() * expected).sum(axis=0))
    assert found == pytest.approx(np.ones(2))


def test_signatures_are_of_images_without_augmentation():
    def view(images, generator):
        assert generator is None
        return images.float()

    raw = torch.tensor([[[[1, 0]]], [[[0, 1]]]], dtype=torch.uint8)
    update = signing(raw, [0, 1], view=view)
    assert update.sent["sketch"]["vectors"].abs().tolist() == [[1, 0], [0, 1]]


def test_a_single_sample_and_a_black_image_are_signed():
    one = torch.tensor([[[[3.0, 4.0]]]])
    found = signing(one, [5]).sent["sketch"]["vectors"]
    assert found.abs().flatten().tolist() == pytest.approx([0.6, 0.8])
    assert signing(0 * one, [5]).sent["sketch"]["vectors"].shape == (2, 0)


SETTINGS = {"rounds__count": 3, "rounds__fraction": 0.67}


def test_one_cluster_is_fedavg_bit_for_bit(run):
    pacfl = run("pacfl", **SETTINGS, **{"pacfl__n-clusters": 1})
    fedavg = run("fedavg", **SETTINGS)
    state = pacfl.tensors("final/state.safetensors")
    model_ = fedavg.tensors("final/params.safetensors")["params"]
    assert state.keys() == {"clusters", "cluster-0"}
    assert all(torch.equal(state["cluster-0"][name], model_[name]) for name in model_)
    assert pacfl.summary["accuracy"] == fedavg.summary["accuracy"]


def test_signatures_are_sent_once_and_counted(run):
    pacfl, fedavg = run("pacfl", **SETTINGS), run("fedavg", **SETTINGS)
    phases = [(row["round"], row["phase"]) for row in pacfl.rows("timing.csv")]
    assert {round_ for round_, phase in phases if phase == "signature"} == {"1"}
    sketches = [
        pacfl.tensors(str(next(iter(home.iterdir()))))
        for home in (pacfl.path / "bank").iterdir()
    ]
    ways = ("down_bytes", "up_bytes")
    more = [pacfl.summary["traffic"][w] - fedavg.summary["traffic"][w] for w in ways]
    # Four bytes for the number of classes that each of 6 clients reports.
    assert more == [0, sum(map(num_bytes, sketches)) + 4 * 6]


def test_signing_is_no_training(run):
    done = run("pacfl", rounds__count=1, rounds__fraction=0.34, data__unseen_clients=1)
    trained = [client["trained"] for client in done.summary["per_client"]]
    assert sum(trained) == 2
    clusters = {row["client"] for row in done.rows("pacfl/clusters.csv")}
    assert clusters == {str(client) for client in range(6)}


def test_a_client_whose_signature_fails_signs_again(run, monkeypatch):
    original = LocalPacfl.train

    def failing(self, task, memory):
        if (task.phase, task.client) == ("signature", 4) and task.round < 3:
            raise RuntimeError("the battery is empty")
        return original(self, task, memory)

    monkeypatch.setattr(LocalPacfl, "train", failing)
    done = run("pacfl", rounds__count=4, **{"rounds__min-replies": 0.5})
    failures = [(f["round"], f["phase"]) for f in done.summary["failures"]]
    assert failures == [(1, "signature"), (2, "signature")]
    rows = done.rows("metrics.csv")
    last = [r["last_trained_round"] for r in rows if r["client"] == "4"]
    assert last == ["0", "0", "3", "4"]
    placed = [r["round"] for r in done.rows("pacfl/clusters.csv") if r["client"] == "4"]
    assert placed == ["3"]
