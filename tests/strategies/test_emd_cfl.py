from dataclasses import replace

import pytest
import torch
from conftest import normed_task

from client_apps.emd_cfl import LocalEmdCfl, split
from client_apps.sgd import LocalSGD
from fedapp import embedded
from fedapp.algorithm import Update
from fedapp.params import select
from fedapp.transport import projection
from strategies.emd_cfl import EmdCfl

INITIAL = {
    "encoder.w": torch.zeros(1),
    "head.weight": torch.zeros(3, 2),
    "head.bias": torch.zeros(3),
}
RIGHT, UP = [1.0, 0.0], [0.0, 1.0]


def strategy(**changes):
    values = {"eps": 0.1, "projection_ratio": 1.0, "encoder_mode": "pairs"}
    return EmdCfl(**values | {"num_clients": 4} | changes)


def model(value, client, count=10):
    own = {**INITIAL, "encoder.w": torch.tensor([float(value)])}
    return Update({"model": own}, count, client=client)


def trained(rule, make_turn, updates, state=None, round_=1):
    """Return the state after a training phase."""
    state = rule.init(INITIAL)[1] if state is None else state
    turn = make_turn(round=round_, sampled=tuple(u.client for u in updates))
    _, after = rule.update({}, state, updates, turn)
    return after


def embeddings(task, val, train=None):
    """Return the reply to a task: rows of the plane."""
    parts = {"emb-train": torch.tensor(train or []).reshape(-1, 2)}
    parts["emb-val"] = torch.tensor(val)
    sent = {part: {"rows": rows} for part, rows in parts.items()}
    return Update(sent, 10, client=task.client, asked=task.scalars)


def answer(task, where):
    """Let every client embed its samples where it is, whatever the encoder."""
    own = where[task.client]
    return embeddings(task, [own], [own] if task.scalars["own"] else None)


def embed(rule, make_turn, state, where, round_=1, lost=()):
    """Return the state after an embedding phase; some pairs are lost on the way."""
    turn = make_turn(phase="embed", round=round_)
    tasks = rule.tasks({}, state, turn)
    replies = [
        answer(task, where)
        for task in tasks
        if (task.scalars["donor"], task.client) not in lost
    ]
    for reply in replies:
        rule.check(reply, state, turn)
    _, after = rule.update({}, state, replies, turn)
    turn.bank.commit(round_)
    return after


def served(rule, state, make_turn):
    tasks = rule.personal({}, state, range(4), make_turn(phase="evaluate"))
    return [task.payload["model"]["encoder.w"].item() for task in tasks]


def keys_of(state):
    return [set(row.nonzero().flatten().tolist()) for row in state["keys"]["members"]]


VALUES = {0: (2.0, 10), 1: (4.0, 30), 2: (6.0, 20), 3: (8.0, 20)}
WHERE = {0: RIGHT, 1: RIGHT, 2: UP, 3: UP}


def first(clients=VALUES):
    return [model(VALUES[k][0], k, VALUES[k][1]) for k in clients]


def test_a_first_round_by_hand(make_turn):
    rule = strategy()
    assert rule.phases(make_turn()) == ("train", "embed")
    state = trained(rule, make_turn, first())
    mean = (20 + 120 + 120 + 160) / 80
    assert state["start"]["encoder.w"].item() == mean
    assert served(rule, state, make_turn) == [mean] * 4
    state = embed(rule, make_turn, state, WHERE)
    assert keys_of(state) == [{0, 1}, {2, 3}]
    low, high = (20 + 120) / 40, (120 + 160) / 40
    assert served(rule, state, make_turn) == [low, low, high, high]
    assert rule.phases(make_turn(round=2)) == ("train",)


def test_every_client_embeds_under_the_encoder_of_every_other(make_turn):
    rule = strategy()
    state = trained(rule, make_turn, first())
    tasks = list(rule.tasks({}, state, make_turn(phase="embed")))
    pairs = [(task.scalars["donor"], task.client) for task in tasks]
    assert sorted(pairs) == [(donor, k) for donor in range(4) for k in range(4)]
    for task in tasks:
        encoder = task.payload["encoder"]
        assert encoder["w"].item() == VALUES[task.scalars["donor"]][0]
        assert task.scalars["own"] == (task.client == task.scalars["donor"])
    # Own embeddings come first: the others' are compared with them.
    assert [pair for pair in pairs[::4]] == [(k, k) for k in range(4)]


def test_distances_are_less_what_a_client_is_from_itself(make_turn):
    rule, turn = strategy(num_clients=2), make_turn(phase="embed", num_clients=2)
    turn_ = replace(turn, phase="train")
    state = rule.init(INITIAL)[1]
    _, state = rule.update({}, state, first((0, 1)), turn_)
    replies = [
        embeddings(task, [RIGHT, UP], [RIGHT, RIGHT])
        if task.scalars["own"]
        else embeddings(task, [UP, UP, RIGHT, UP])
        for task in rule.tasks({}, state, turn)
    ]
    rule.update({}, state, replies, turn)
    pairs = embedded.row_of(turn, 0).part("pairs")
    # Train to the other's: three quarters of the mass by 1; to its own: a half.
    assert pairs["distances"].tolist() == pytest.approx([0.0, 0.75 - 0.5])
    assert pairs["known"].tolist() == [0, 1]


def test_a_key_is_the_mean_of_its_members_whatever_their_own_keys_are(make_turn):
    # 0 is near to 1 and to 3, which are apart: keys {0, 1, 3}, {0, 1}, {2}, {0, 3}.
    rule = strategy(eps=0.2)
    where = {0: [1.0, 1.0], 1: [1.0, 0.4], 2: [-1.0, -1.0], 3: [0.4, 1.0]}
    state = embed(rule, make_turn, trained(rule, make_turn, first()), where)
    assert keys_of(state) == [{0, 1, 3}, {0, 1}, {2}, {0, 3}]
    updates = [model(1.0, 0, 10), model(3.0, 1, 30), model(9.0, 3, 20)]
    state = trained(rule, make_turn, updates, state, round_=2)
    expected = [(10 + 90 + 180) / 60, (10 + 90) / 40, 6.0, (10 + 180) / 30]
    assert served(rule, state, make_turn) == pytest.approx(expected)


def test_without_neighbours_everyone_goes_on_with_its_own_model(make_turn):
    rule = strategy()
    apart = {0: RIGHT, 1: UP, 2: [-1.0, 0.0], 3: [0.0, -1.0]}
    state = embed(rule, make_turn, trained(rule, make_turn, first()), apart)
    assert served(rule, state, make_turn) == [2.0, 4.0, 6.0, 8.0]
    state = trained(rule, make_turn, [model(5.0, 1)], state, round_=2)
    assert served(rule, state, make_turn) == [2.0, 5.0, 6.0, 8.0]


def test_a_key_of_which_nobody_takes_part_keeps_its_model(make_turn):
    rule = strategy()
    state = embed(rule, make_turn, trained(rule, make_turn, first()), WHERE)
    state = trained(rule, make_turn, [model(1.0, 0)], state, round_=2)
    assert served(rule, state, make_turn) == [1.0, 1.0, 7.0, 7.0]


def test_a_client_that_comes_later_starts_from_the_mean_of_round_1(make_turn):
    rule = strategy()
    state = embed(rule, make_turn, trained(rule, make_turn, first((0, 1, 2))), WHERE)
    assert keys_of(state) == [{0, 1}, {2}]
    mean = (20 + 120 + 120) / 60
    assert served(rule, state, make_turn) == pytest.approx([3.5, 3.5, 6.0, mean])
    turn = make_turn(round=2, sampled=(0, 3))
    assert rule.phases(turn) == ("train", "embed")
    updates = [model(1.5, 0, 10), model(8.0, 3, 40)]
    state = trained(rule, make_turn, updates, state, round_=2)
    state = embed(rule, make_turn, state, WHERE, round_=2)
    assert keys_of(state) == [{0, 1}, {2, 3}]
    # The key that stays has what round 2 made of it; the new one takes 2's key model
    # and 3's own, by their examples.
    new = (6.0 * 20 + 8.0 * 40) / 60
    assert served(rule, state, make_turn) == pytest.approx([1.5, 1.5, new, new])
    assert state["start"]["encoder.w"].item() == pytest.approx(mean)


def test_a_pair_that_is_lost_is_not_near_and_is_asked_again(make_turn):
    rule = strategy()
    state = trained(rule, make_turn, first())
    state = embed(rule, make_turn, state, WHERE, lost={(1, 0), (2, 2)})
    # Without 2's own embeddings none of its distances is known.
    assert keys_of(state) == [{0}, {1}, {2}, {3}]
    assert rule.phases(make_turn(round=2)) == ("train", "embed")
    tasks = rule.tasks({}, state, make_turn(phase="embed", round=2))
    asked = [(task.scalars["donor"], task.client) for task in tasks]
    assert asked == [(1, 1), (1, 0), (2, 2), (2, 0), (2, 1), (2, 3)]
    state = embed(rule, make_turn, state, WHERE, round_=2)
    assert keys_of(state) == [{0, 1}, {2, 3}]
    assert rule.phases(make_turn(round=3)) == ("train",)


def test_a_shared_encoder_takes_one_message_a_client(make_turn):
    rule = strategy(encoder_mode="shared")
    state = trained(rule, make_turn, first())
    tasks = list(rule.tasks({}, state, make_turn(phase="embed")))
    assert [task.client for task in tasks] == [0, 1, 2, 3]
    mean = state["start"]["encoder.w"]
    assert all(torch.equal(task.payload["encoder"]["w"], mean) for task in tasks)
    assert all(task.scalars["own"] for task in tasks)
    after = embed(rule, make_turn, state, WHERE, lost={(3, 3)})
    assert keys_of(after) == [{0, 1}, {2}, {3}]
    (again,) = rule.tasks({}, after, make_turn(phase="embed", round=2))
    assert again.client == 3
    after = embed(rule, make_turn, after, WHERE, round_=2)
    assert keys_of(after) == [{0, 1}, {2, 3}]


@pytest.mark.parametrize(
    ("mode", "clients", "messages"),
    [("auto", 40, 40 * 40), ("auto", 41, 41), ("pairs", 41, 41 * 41), ("shared", 3, 3)],
)
def test_all_encoders_are_sent_to_all_up_to_forty_clients(
    make_turn, mode, clients, messages
):
    rule = strategy(encoder_mode=mode, num_clients=clients)
    turn = make_turn(num_clients=clients, sampled=tuple(range(clients)))
    updates = [model(1.0, client) for client in range(clients)]
    _, state = rule.update({}, rule.init(INITIAL)[1], updates, turn)
    tasks = rule.tasks({}, state, replace(turn, phase="embed"))
    assert len(list(tasks)) == messages


def test_a_reply_without_the_embeddings_asked_for_is_refused(make_turn):
    rule, turn = strategy(), make_turn(phase="embed")
    state = trained(rule, make_turn, first((0, 1)))
    own, other, *_ = rule.tasks({}, state, turn)
    rule.check(embeddings(own, [UP], [UP]), state, turn)
    rule.check(embeddings(other, [UP]), state, turn)
    for bad in (embeddings(own, [UP]), embeddings(other, [UP], [UP])):
        with pytest.raises(ValueError, match="embeddings"):
            rule.check(bad, state, turn)


def client(**changes):
    values = {"holdout": 0.1, "sample_share": 0.1, "max_samples": 512}
    return LocalEmdCfl(**values | {"projection_ratio": 1.0} | changes)


@pytest.mark.parametrize(
    ("count", "held"), [(1, 0), (2, 1), (3, 1), (14, 1), (20, 2), (60, 6)]
)
def test_a_tenth_is_held_out_always_the_same(count, held):
    task = normed_task(count)
    train, validation = split(task, 0.1)
    assert len(validation) == held
    assert sorted(torch.cat([train, validation]).tolist()) == list(range(count))
    later = split(replace(task, round=7), 0.1)
    assert torch.equal(later[1], validation)


def test_held_out_samples_are_never_trained_on():
    task = normed_task(20, phase="train")
    task = replace(task, received={"model": task.initial})
    train, validation = split(task, 0.25)
    poison = task.labelled.images.clone()
    poison[validation] = torch.nan
    spoilt = replace(task, labelled=replace(task.labelled, images=poison))
    clean, _ = client(holdout=0.25).train(task, {})
    update, _ = client(holdout=0.25).train(spoilt, {})
    assert update.num_examples == len(train) == 15
    for name, leaf in clean.sent["model"].items():
        assert torch.equal(update.sent["model"][name], leaf)


def test_without_a_share_held_out_training_is_plain_sgd():
    task = normed_task(20)
    task = replace(task, received={"model": task.initial})
    update, _ = client(holdout=0.0).train(task, {})
    expected, _ = LocalSGD().train(task, {})
    for name, leaf in expected.sent["model"].items():
        assert torch.equal(update.sent["model"][name], leaf)


def embedding(count, *, own=True, changes=None, **settings):
    task = normed_task(count, phase="embed", scalars={"donor": 0, "own": own})
    task = replace(task, received={"encoder": select(task.initial, "encoder")})
    return task, client(**settings).train(replace(task, **(changes or {})), {})[0]


def test_embeddings_are_taken_in_evaluation_mode_and_projected():
    settings = {"holdout": 0.5, "sample_share": 1.0, "projection_ratio": 0.6}
    task, update = embedding(8, **settings)
    train, validation = split(task, 0.5)
    task.model.load_state_dict(task.initial)
    task.model.eval()
    matrix = projection(3, 0.6, seed=0)
    assert matrix.shape == (3, 2)
    with torch.no_grad():
        for part, index in (("emb-train", train), ("emb-val", validation)):
            expected = task.model.encoder(task.labelled.images[index]) @ matrix
            torch.testing.assert_close(update.sent[part]["rows"], expected)


@pytest.mark.parametrize(
    ("count", "settings", "sizes"),
    [
        (60, {}, (6, 6)),
        (60, {"max_samples": 4}, (4, 4)),
        (60, {"sample_share": 0.5}, (30, 6)),
        (3, {}, (1, 1)),
        (1, {}, (1, 1)),
        (20, {"holdout": 0.0}, (2, 2)),
    ],
)
def test_a_share_of_the_samples_is_embedded(count, settings, sizes):
    _, update = embedding(count, **settings)
    rows = [update.sent[part]["rows"] for part in ("emb-train", "emb-val")]
    assert tuple(map(len, rows)) == sizes
    if count > 1:
        assert not torch.equal(rows[0], rows[1])
    else:
        assert torch.equal(rows[0], rows[1])  # so that tau is 0


def test_training_embeddings_stay_with_who_is_not_the_donor():
    _, update = embedding(60, own=False)
    assert update.sent["emb-train"]["rows"].shape == (0, 3)
    assert update.sent["emb-val"]["rows"].shape == (6, 3)


SETTINGS = {"rounds__count": 3, "rounds__fraction": 0.67}


@pytest.mark.parametrize("mode", ["pairs", "shared"])
def test_one_key_is_fedavg_bit_for_bit(run, mode):
    near = {"emd-cfl__eps": 2.5, "emd-cfl__holdout": 0.0, "emd-cfl__encoder-mode": mode}
    settings = {**SETTINGS, "rounds__fraction": 1.0}
    done, fedavg = run("emd-cfl", **settings, **near), run("fedavg", **settings)
    state = done.tensors("final/state.safetensors")
    assert sum(part.startswith("cluster-") for part in state) == 1
    for name, leaf in fedavg.tensors("final/params.safetensors")["params"].items():
        assert torch.equal(state["cluster-0"][name], leaf)
    assert done.summary["accuracy"] == fedavg.summary["accuracy"]


def test_embedding_is_no_training_and_newcomers_are_compared_when_they_come(run):
    done = run("emd-cfl", **{**SETTINGS, "rounds__fraction": 0.34})
    rows = done.rows("timing.csv")
    embedded_ = {(r["round"], r["client"]) for r in rows if r["phase"] == "embed"}
    trained_ = {(r["round"], r["client"]) for r in rows if r["phase"] == "train"}
    once = {client for _, client in trained_ if client}
    last = [r for r in done.rows("metrics.csv") if r["round"] == "3"]
    for row in last:
        rounds = [int(r) for r, client in trained_ if client == row["client"]]
        assert row["last_trained_round"] == str(max(rounds, default=0))
    assert {client for _, client in embedded_ if client} == once
    assert len({round_ for round_, _ in embedded_}) > 1


def test_a_client_that_fails_to_embed_is_asked_again(run, monkeypatch):
    original = LocalEmdCfl.train

    def failing(self, task, memory):
        if (task.phase, task.client, task.round) == ("embed", 2, 1):
            raise RuntimeError("the battery is empty")
        return original(self, task, memory)

    monkeypatch.setattr(LocalEmdCfl, "train", failing)
    done = run("emd-cfl", rounds__count=3, **{"rounds__min-replies": 0.5})
    rounds = {r["round"] for r in done.rows("timing.csv") if r["phase"] == "embed"}
    assert rounds == {"1", "2"}
    assert {f["client"] for f in done.summary["failures"]} == {2}
