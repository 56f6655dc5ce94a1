from dataclasses import replace

import pytest
import torch
from conftest import line_model, line_task

from client_apps.ifca import LocalIfca
from fedapp.algorithm import Update
from fedapp.models import state_of
from strategies.ifca import Ifca

INITIAL = {"encoder.w": torch.tensor([1.0]), "head.w": torch.tensor([2.0])}


def fresh(seed):
    value = 10.0 + seed % 1000
    return {"encoder.w": torch.tensor([value]), "head.w": torch.tensor([-value])}


def strategy(**changes):
    values = {"clusters": 3, "share_encoder": False, "init_retries": 0}
    values |= {"init_share": 0.1, "num_clients": 4, "other_start": fresh}
    return Ifca(**values | changes)


def reply(client, cluster, value, count):
    model = {"encoder.w": torch.tensor([value]), "head.w": torch.tensor([-value])}
    return Update({"model": model}, count, {"cluster": cluster}, client)


def regression(slope, models, **changes):
    """Return a task of fitting y = slope x, with cluster models of such slopes."""
    received = {
        f"cluster-{g}": state_of(line_model(encoder=value))
        for g, value in enumerate(models)
    }
    points = [(x, slope * x) for x in (-2.0, -1.0, 1.0, 3.0)]
    return line_task(points, received=received, **changes)


@pytest.mark.parametrize(("slope", "cluster"), [(1.0, 0), (-1.0, 1)])
def test_well_separated_clients_find_their_cluster_in_the_first_round(slope, cluster):
    task = regression(slope, (0.1, -0.1))
    update, memory = LocalIfca().train(task, {})
    assert update.metrics["cluster"] == cluster
    assert memory == {}
    moved = update.sent["model"]["encoder.weight"].item()
    assert abs(moved - slope) < abs((0.1, -0.1)[cluster] - slope)


def test_evaluation_chooses_by_training_loss():
    ((_, predictor),) = LocalIfca().predictors(regression(-1.0, (0.1, -0.1)), {})
    assert predictor(torch.ones(1, 1)).item() == pytest.approx(-0.1)


def test_a_trial_only_reports_the_choice():
    task = replace(regression(-1.0, (0.1, -0.1)), phase="choose-0")
    update, _ = LocalIfca().train(task, {})
    assert (update.sent, update.metrics) == ({}, {"cluster": 1})


def test_means_are_by_cluster_and_an_empty_one_stays(make_turn):
    rule = strategy()
    params, state = rule.init(INITIAL)
    updates = [reply(0, 1, 1.0, 10), reply(1, 0, 5.0, 7), reply(2, 1, 3.0, 30)]
    _, after = rule.update(params, state, updates, make_turn())
    found = [after[f"cluster-{g}"]["encoder.w"].item() for g in range(3)]
    assert found[:2] == [5.0, 2.5]
    assert after["cluster-2"] is state["cluster-2"]


def test_clusters_start_apart_and_the_first_where_all_methods_do():
    _, state = strategy().init(INITIAL)
    assert state["cluster-0"] is INITIAL
    values = {state[f"cluster-{g}"]["encoder.w"].item() for g in range(3)}
    assert len(values) == 3


@pytest.mark.parametrize("cluster", [-1, 3, 0.5, None])
def test_a_choice_that_cannot_be_is_refused(cluster, make_turn):
    rule = strategy()
    metrics = {} if cluster is None else {"cluster": cluster}
    with pytest.raises(ValueError, match="of 3, from 0"):
        rule.check(Update({}, 1, metrics), {}, make_turn())


def test_one_shared_encoder_is_the_mean_of_all(make_turn):
    rule = strategy(share_encoder=True)
    params, state = rule.init(INITIAL)
    updates = [
        Update(
            {"encoder": {"w": torch.tensor([e])}, "head": {"w": torch.tensor([h])}},
            count,
            {"cluster": cluster},
        )
        for e, h, count, cluster in ((1.0, 4.0, 10, 0), (3.0, 8.0, 30, 1))
    ]
    params, state = rule.update(params, state, updates, make_turn())
    assert params["w"].item() == 2.5
    assert [state[f"cluster-{g}"]["w"].item() for g in (0, 1)] == [4.0, 8.0]
    assert rule.broadcast(params, state, make_turn()).keys() == {
        "encoder",
        *(f"cluster-{g}" for g in range(3)),
    }


def trial(rule, state, choices, turn):
    updates = [Update({}, 1, {"cluster": c}, k) for k, c in enumerate(choices)]
    return rule.update({}, state, updates, turn)[1]


def test_initial_models_are_drawn_anew_until_each_attracts_enough(make_turn):
    rule = strategy(init_retries=2, init_share=0.25)
    turn = make_turn(phase="choose-0")
    assert rule.phases(make_turn()) == ("choose-0", "choose-1", "train")
    assert rule.phases(make_turn(round=2)) == ("train",)
    _, first = rule.init(INITIAL)
    second = trial(rule, first, (0, 1, 1, 0), turn)
    assert second["cluster-0"] is INITIAL
    for cluster in (1, 2):
        before, after = (s[f"cluster-{cluster}"]["encoder.w"] for s in (first, second))
        assert before != after
    assert list(rule.participants(second, make_turn(phase="choose-1"))) == [0, 1, 2, 3]
    settled = trial(rule, second, (0, 1, 2, 0), make_turn(phase="choose-1"))
    assert settled["cluster-1"] is second["cluster-1"]
    assert rule.participants(settled, make_turn(phase="choose-2")) == ()
    _, trained = rule.update({}, settled, [reply(0, 0, 1.0, 1)], make_turn())
    assert trained.keys() == {f"cluster-{g}" for g in range(3)}


def test_drawing_anew_stops_after_the_retries(run):
    most = {"ifca__clusters": 6, "ifca__init-retries": 3, "ifca__init-share": 1.0}
    done = run("ifca", rounds__fraction=0.5, rounds__count=1, **most)
    asked = [row["phase"] for row in done.rows("timing.csv") if not row["client"]]
    assert asked == ["choose-0", "choose-1", "choose-2", "train", "evaluate"]
    trained = [c["trained"] for c in done.summary["per_client"]]
    assert sum(trained) == 3


def test_one_cluster_is_fedavg_bit_for_bit(run):
    settings = {"rounds__fraction": 0.5, "rounds__count": 3}
    fedavg = run("fedavg", **settings)
    theirs = fedavg.tensors("final/params.safetensors")["params"]
    for share in (False, True):
        own = {"ifca__clusters": 1, "ifca__share-encoder": share}
        ifca = run("ifca", **settings, **own)
        model = ifca.tensors("final/state.safetensors")["cluster-0"]
        if share:
            encoder = ifca.tensors("final/params.safetensors")["params"]
            model = {f"head.{k}": v for k, v in model.items()}
            model |= {f"encoder.{k}": v for k, v in encoder.items()}
        assert all(torch.equal(model[name], leaf) for name, leaf in theirs.items())
        assert ifca.summary["accuracy"] == fedavg.summary["accuracy"]


def test_all_models_go_down_and_one_comes_back(run):
    ifca, fedavg = run("ifca"), run("fedavg")
    (down, up), (theirs, _) = (
        [done.summary["traffic"][way] for way in ("down_bytes", "up_bytes")]
        for done in (ifca, fedavg)
    )
    assert down == 4 * theirs
    assert up == theirs + 2 * 6 * 4


def test_choices_and_cluster_sizes_are_written_each_round(run):
    done = run("ifca")
    sizes = done.rows("ifca/clusters.csv")
    assert len(sizes) == 2 * 4
    for round_ in ("1", "2"):
        choices = [r for r in done.rows("ifca/choices.csv") if r["round"] == round_]
        for row in (r for r in sizes if r["round"] == round_):
            mine = [r for r in choices if r["cluster"] == row["cluster"]]
            assert len(mine) == int(row["clients"])
