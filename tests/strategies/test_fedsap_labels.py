"""FedSAP with a part of the labels (specification 21.2)."""

import pytest
import torch
from prototype_replies import INITIAL, A, B, half, memories, reply, same_models

from strategies.fedsap import FedSAP

SOME = {
    "data__label_fraction": 0.25,
    "data__samples_per_client": 40,
    "data__partition": "iid",
    "data__shift": "none",
    "data__clients": 4,
    "rounds__count": 4,
    "rounds__evaluate_every": 4,
    "fedsap__supervised": 0.25,
    "fedsap__ramp": 0,
    "local__epochs": 3,
}
"""Pseudo-labels at full weight in the last three of four rounds."""
NONE = {"fedsap__pseudo_labels": "none"}


def pseudo_rows(done):
    return done.rows("fedsap/pseudo_labels.csv")


@pytest.mark.parametrize(
    "changes",
    [
        {"fedsap__pseudo_labels": "fixed", "fedsap__threshold": 0.0},
        {"fedsap__supervised": 1.0},
    ],
)
def test_accepting_nothing_is_supervised_training_on_the_labelled(once, changes):
    supervised = once("fedsap", **SOME, **NONE)
    assert same_models(supervised, once("fedsap", **(SOME | changes)))


def test_accepting_something_is_not(once):
    models = [
        once("fedsap", **SOME, fedsap__pseudo_labels=rule)
        for rule in ("none", "auto", "all", "oracle")
    ]
    for index, one in enumerate(models):
        for other in models[index + 1 :]:
            assert not same_models(one, other)


def test_how_many_were_accepted_and_right_is_written_down(once):
    every = pseudo_rows(once("fedsap", **SOME, fedsap__pseudo_labels="all"))
    assert [row["round"] for row in every] == ["2", "3", "4"]
    assert {row["accepted_share"] for row in every} == {"1.0"}
    assert all(0.1 < float(row["accepted_accuracy"]) < 1 for row in every)
    oracle = pseudo_rows(once("fedsap", **SOME, fedsap__pseudo_labels="oracle"))
    assert {row["accepted_accuracy"] for row in oracle} == {"1.0"}
    auto = pseudo_rows(once("fedsap", **SOME, fedsap__pseudo_labels="auto"))
    assert all(0 < float(row["accepted_share"]) < 1 for row in auto)
    assert all(float(row["threshold"]) > 0 for row in auto)


def test_thresholds_stay_with_the_client(once):
    kept = memories(once("fedsap", **SOME, fedsap__pseudo_labels="auto"), "thresholds")
    assert kept[0]["by-class"].shape == (10,)
    assert len({float(tree["client"]) for tree in kept}) > 1


def test_with_all_labels_nothing_more_is_sent_or_written(once):
    done = once("fedsap")
    assert not (done.path / "fedsap" / "pseudo_labels.csv").exists()
    same = once("fedsap", fedsap__pseudo_labels="all")
    assert done.bits() == same.bits()
    assert done.summary["traffic"] == same.summary["traffic"]


def test_every_method_trains_on_the_labelled_only(once):
    some = {k: v for k, v in SOME.items() if k.startswith("data")}
    done = once("fedavg", **some, rounds__count=1)
    assert done.summary["status"] == "completed"


def test_accepted_samples_may_count_half_in_prototypes(once):
    labelled = once("fedsap", **SOME, fedsap__pseudo_labels="all")
    accepted = once(
        "fedsap",
        **SOME,
        fedsap__pseudo_labels="all",
        fedsap__prototypes_from="accepted",
    )
    final = "final/state.safetensors"
    banks = [done.tensors(final)["prototypes"] for done in (labelled, accepted)]
    assert not torch.equal(banks[0]["values"], banks[1]["values"])


def server(**changes):
    table = {"label_fraction": 0.1, "supervised": 0.3, "ramp": 10}
    return half(FedSAP, "fedsap", **(table | changes))


def test_the_weight_of_pseudo_labels_rises_over_the_ramp(make_turn):
    rule = server()
    weights = [
        rule.pseudo_weight(make_turn(round=round_, rounds=100))
        for round_ in (1, 30, 31, 36, 41, 90)
    ]
    # T_sup is 30: t = 30 is the first round with pseudo-labels.
    assert weights == [None, None, 0.0, 0.5, 1.0, 1.0]
    late = make_turn(round=90, rounds=100)
    assert server(label_fraction=1.0).pseudo_weight(late) is None
    assert server(pseudo_labels="none").pseudo_weight(late) is None
    assert server(supervised=1.0).pseudo_weight(late) is None


def test_the_servers_threshold_is_the_mean_by_examples(make_turn):
    rule, turn = server(), make_turn(round=50, rounds=100)
    params, state = rule.init(INITIAL)
    assert rule.scalars(state, turn)["threshold"] == -1
    replies = [
        reply(0, 10, {"threshold": 0.2}, **A),
        reply(1, 30, {"threshold": 0.4}, **B),
        reply(2, 99, {}, **A),
    ]
    _, state = rule.update(params, state, replies, turn)
    assert rule.scalars(state, turn)["threshold"] == pytest.approx(0.35)
    _, state = rule.update(params, state, [reply(0, 9, {}, **A)], turn)
    assert rule.scalars(state, turn)["threshold"] == pytest.approx(0.35)
