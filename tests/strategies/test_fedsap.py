import pytest
import torch
from prototype_replies import (
    INITIAL,
    A,
    B,
    half,
    memories,
    reply,
    same_models,
)

from fedapp.prototypes import Bank
from fedapp.turn import check_update
from strategies.fedsap import FedSAP

NEITHER = {"fedsap__lam": 0.0, "fedsap__separation_weight": 0.0}


def server(**changes):
    return half(FedSAP, "fedsap", **changes)


def after(rule, turn, *replies, state=None):
    params, begun = rule.init(INITIAL)
    return rule.update(params, state or begun, list(replies), turn)[1]


def test_without_its_terms_it_is_local_training(once):
    alone = once("local")
    assert same_models(alone, once("fedsap", **NEITHER))
    assert same_models(alone, once("fedproto", fedproto__lam=0.0))
    for name in NEITHER:
        # The weight of the alignment is zero in the first round only.
        assert not same_models(alone, once("fedsap", **(NEITHER | {name: 1.0})))


def test_static_and_without_separation_it_is_fedproto(once):
    plain = {"rounds__count": 3, "local__epochs": 2}
    static = {
        "fedsap__lam": 0.7,
        "fedsap__separation_weight": 0.0,
        "fedsap__warm_up": 0.0,
        "fedsap__weighting": "uniform",
    }
    sap = once("fedsap", **plain, **static)
    proto = once("fedproto", **plain, fedproto__lam=0.7)
    assert same_models(sap, proto)
    final = "final/state.safetensors"
    assert (sap.path / final).read_bytes() == (proto.path / final).read_bytes()
    assert not same_models(sap, once("fedproto", **plain, fedproto__lam=0.8))


def test_traffic_is_that_of_fedproto_and_one_float(once):
    sap, proto = (once(m).summary["traffic"] for m in ("fedsap", "fedproto"))
    # Four bytes to each of six clients in each of two rounds.
    assert sap["down_bytes"] - proto["down_bytes"] == 4 * 6 * 2
    assert sap["up_bytes"] == proto["up_bytes"]
    assert sap["evaluate_down_bytes"] == proto["evaluate_down_bytes"]


def test_the_weight_starts_at_zero_and_is_full_after_the_warm_up(make_turn):
    rule = server(lam=3.0, warm_up=0.2)
    _, state = rule.init(INITIAL)
    sent = []
    for round_ in (1, 2, 11, 21, 51):
        turn = make_turn(round=round_, rounds=100)
        sent.append(next(t.scalars for t in rule.tasks({}, state, turn)))
    assert sent == [{"lam": pytest.approx(3 * s)} for s in (0, 0.05, 0.5, 1, 1)]


def test_momentum_keeps_a_share_of_the_old_prototype(make_turn):
    rule = server(momentum=0.5)
    state = after(rule, make_turn(), reply(**A), reply(**B))
    state = after(rule, make_turn(round=2), reply(**A), state=state)
    bank = Bank.of_state(state["prototypes"])
    # Half of the mean by counts (4/3, 4/3) and half of (2, 0).
    torch.testing.assert_close(bank.values[0], torch.tensor([5 / 3, 2 / 3]))
    assert bank.values[1].tolist() == [0, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"fedsap__separation": "proxy-nca"},
        {"fedsap__separation": "proxy-anchor"},
        {"fedsap__proxies": "private"},
        {"fedsap__distance": "sum"},
        {"fedsap__embedding_scale": 3.0},
        {"fedsap__schedule": "step", "fedsap__warm_up": 1.0},
    ],
)
def test_each_option_changes_training_and_no_traffic(once, changes):
    plain, other = once("fedsap"), once("fedsap", **changes)
    assert not same_models(plain, other)
    assert plain.summary["traffic"] == other.summary["traffic"]


def test_private_proxies_stay_and_move(once):
    done = once("fedsap", fedsap__proxies="private")
    kept = memories(done, "proxies")
    assert len(kept) == 6
    assert kept[0]["values"].shape == (10, 200)
    assert not torch.equal(kept[0]["values"], kept[1]["values"])


def test_learned_proxies_cost_their_size_each_way(once):
    bank = once("fedsap").summary["traffic"]
    learned = once("fedsap", fedsap__proxies="learned").summary["traffic"]
    size = 4 * 10 * 200
    assert learned["down_bytes"] - bank["down_bytes"] == 2 * 6 * size
    # A count for each class goes up with them.
    assert learned["up_bytes"] - bank["up_bytes"] == 2 * 6 * (size + 4 * 10)


def test_learned_proxies_are_averaged_by_class_counts(make_turn):
    rule = server(proxies="learned")
    _, state = rule.init(INITIAL)
    old = state["proxies"]["values"]
    mine = {"proxies": [[1.0, 1], [5, 5], [7, 7]], "proxy_counts": [1.0, 2, 0]}
    theirs = {"proxies": [[4.0, 4], [9, 9], [8, 8]], "proxy_counts": [3.0, 0, 0]}
    new = after(rule, make_turn(), reply(**A, **mine), reply(**B, **theirs))
    values = new["proxies"]["values"]
    assert values[:2].tolist() == [[3.25, 3.25], [5, 5]]
    assert torch.equal(values[2], old[2])
    bad = reply(**A, **(mine | {"proxy_counts": [1.0, -2, 0]}))
    check_update(bad, rule.expects({}, state, make_turn()))
    with pytest.raises(ValueError, match="proxy of class 1 has -2 samples"):
        rule.check(bad, state, make_turn())


def test_sharing_the_encoder_alone_is_fedper(once):
    shared = once("fedsap", **NEITHER, fedsap__share_encoder=True)
    fedper = once("fedper")
    name = "final/params.safetensors"
    assert (shared.path / name).read_bytes() == (fedper.path / name).read_bytes()
    own = [
        {
            k: v["accuracy"]
            for k, v in enumerate(done.rows("metrics.csv"))
            if v["model"] in ("own", "personal")
        }
        for done in (shared, fedper)
    ]
    assert list(own[0].values()) == list(own[1].values())
