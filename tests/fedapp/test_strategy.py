"""RoundStrategy with clients that are functions in this file."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from flwr.app import Message, MessageType
from flwr.serverapp.strategy import Strategy

from fedapp import records
from fedapp.algorithm import Update
from fedapp.exchange import RunStopped
from fedapp.inline import InlineGrid
from fedapp.ledger import score_metrics
from fedapp.memory import Who
from fedapp.params import WeightedMean, subtract
from fedapp.strategy import RoundStrategy
from fedapp.turn import Task

pytestmark = pytest.mark.usefixtures("inside_a_run")

INITIAL = {"w": torch.tensor([0.5, -2.0])}


@dataclass(kw_only=True)
class Averaging(RoundStrategy):
    """The mean model; the bank has what clients sent, the state the round's move."""

    def update(self, params, state, updates, turn):
        mean = WeightedMean()
        for update in updates:
            turn.bank.write(
                update.client,
                update.sent,
                num_examples=update.num_examples,
                round=turn.round,
            )
            mean.add(update.sent["model"], update.num_examples)
        moved = subtract(mean.value(), params)
        return mean.value(), {"last-move": moved}


@dataclass
class Lab:
    """A federation whose clients answer as ``train`` and ``evaluate`` say.

    They get the client, what it received, cfg and scalars, and return an Update or
    the content of a reply.
    """

    train: Callable
    clients: int = 3
    simulated: bool = True
    evaluate: Callable = lambda client, received, cfg, scalars: scored(client)
    grid_class: type = InlineGrid
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self.grid = self.grid_class(self._answer, self.clients, {})

    def _answer(self, message, context):
        kind, client = (
            message.metadata.message_type,
            context.node_config["partition-id"],
        )
        if kind == MessageType.QUERY:
            count = self.clients if self.simulated else 0
            who = Who(str(client), simulated=self.simulated, clients=count)
            return Message(records.who_reply(who), reply_to=message)
        received, cfg, scalars = records.read_request(message.content)
        self.asked.append((cfg["round"], cfg["phase"], client))
        answer = self.evaluate if kind == MessageType.EVALUATE else self.train
        content = answer(client, received, cfg, scalars)
        if isinstance(content, Update):
            content = records.reply(content, client=client, seconds=0.0)
        return Message(content, reply_to=message)

    def run(self, strategy, rounds=1, initial=INITIAL):
        strategy.start(self.grid, records.to_record(initial), num_rounds=rounds)
        return strategy


def scored(client):
    return Update({}, 10, score_metrics(0, "own", client % 9 + 1, 5.0))


def moved(client, received, cfg=None, scalars=None):
    """Move the received model by a client's own step; examples differ by client."""
    step = torch.tensor([0.1, -7.3]) * (client + 1) ** 3 / 9
    return Update({"model": {"w": received["model"]["w"] + step}}, client + 1)


def moved_mean(start, clients):
    steps = torch.tensor([0.1, -7.3]) / 9
    total = sum(k + 1 for k in clients)
    return start + steps * sum((k + 1) ** 4 for k in clients) / total


def failing(client_that_fails, failure, round_that_fails=1):
    """Return clients that move, but for one, which fails in one round."""

    def train(client, received, cfg, scalars):
        if client == client_that_fails and cfg["round"] == round_that_fails:
            return failure(client, received)
        return moved(client, received)

    return train


def raising(client, received):
    raise RuntimeError("disk full")


def with_model(**tensors):
    return lambda client, received: Update({"model": tensors}, 1)


def silent_to(*clients):
    """Return a grid on which these clients never answer but to queries."""

    class Silent(InlineGrid):
        def pull_messages(self, ids):
            return super().pull_messages([i for i in ids if not self._mute(i)])

        def _mute(self, message_id):
            about = self._waiting[message_id].metadata
            node = self.contexts[about.dst_node_id].node_config["partition-id"]
            return node in clients and about.message_type != MessageType.QUERY

    return Silent


def answering(order):
    """Return a grid that answers the messages under way in another order."""

    class Shuffled(InlineGrid):
        def pull_messages(self, ids):
            return super().pull_messages(order(list(ids)))

    return Shuffled


def test_a_round_by_hand():
    strategy = Lab(moved).run(Averaging(), rounds=2)
    expected = moved_mean(moved_mean(INITIAL["w"], range(3)), range(3))
    torch.testing.assert_close(strategy.params["w"], expected)
    assert (strategy.round, strategy.num_clients) == (2, 3)


FAILURES = {
    "raised": (raising, "Flower reports: RuntimeError: disk full"),
    "reported": (
        lambda client, received: records.error_reply("no data", client=client),
        "no data",
    ),
    "not-finite": (
        with_model(w=torch.tensor([1.0, float("nan")])),
        "tensor model/w has a NaN or an infinity",
    ),
    "misshapen": (
        with_model(w=torch.ones(3)),
        "tensor model/w has shape (3,) instead of (2,)",
    ),
    "incomplete": (with_model(), "tensor model/w is missing"),
    "no-examples": (
        lambda client, received: Update({"model": received["model"]}, 0),
        "it stands for 0 examples, not 1 or more",
    ),
    "not-its-own": (
        lambda client, received: records.reply(
            moved(client, received), client=0, seconds=0.0
        ),
        "it says it is client 0",
    ),
}


@pytest.mark.parametrize(("failure", "cause"), FAILURES.values(), ids=FAILURES)
def test_a_bad_reply_is_dropped_named_and_the_round_goes_on(failure, cause):
    lab = Lab(failing(1, failure))
    strategy = lab.run(Averaging(min_replies=0.6))
    torch.testing.assert_close(strategy.params["w"], moved_mean(INITIAL["w"], [0, 2]))
    (found,) = strategy.ledger.failures
    assert (found.round, found.phase, found.client) == (1, "train", 1)
    assert found.cause == cause
    assert strategy.ledger.last_trained == {0: 1, 2: 1}
    assert strategy.bank.clients() == [0, 2]


@pytest.mark.parametrize(("failure", "cause"), FAILURES.values(), ids=FAILURES)
def test_too_few_replies_stop_the_run_and_name_clients_and_causes(failure, cause):
    with pytest.raises(RunStopped) as caught:
        Lab(failing(1, failure)).run(Averaging())
    message = str(caught.value)
    assert "round 1, phase train: 2 of 3 clients" in message
    assert "3 are needed (rounds.min-replies = 1)" in message
    assert f"client 1: {cause}" in message


def test_a_late_reply_is_dropped_and_named():
    lab = Lab(moved, grid_class=silent_to(1), evaluate=lambda *_: scored(0))
    strategy = Averaging(min_replies=0.6, reply_seconds=0.3)
    lab.run(strategy)
    torch.testing.assert_close(strategy.params["w"], moved_mean(INITIAL["w"], [0, 2]))
    causes = {(f.phase, f.client): f.cause for f in strategy.ledger.failures}
    late = "no reply within rounds.reply-seconds = 0.3"
    assert causes == {("train", 1): late, ("evaluate", 1): late}


def test_a_client_that_is_away_is_dropped_and_named():
    def leave(client, received, cfg, scalars):
        if (client, cfg["round"]) == (1, 1):
            lab.grid.contexts.pop(1_000_003 + client)
        return moved(client, received)

    lab = Lab(leave)
    strategy = lab.run(Averaging(min_replies=0.6, evaluate_every=9), rounds=2)
    causes = [(f.round, f.phase, f.client, f.cause) for f in strategy.ledger.failures]
    assert causes == [(2, "train", 1, "it is away"), (2, "evaluate", 1, "it is away")]
    assert strategy.ledger.last_trained == {0: 2, 1: 1, 2: 2}


def test_a_client_that_leaves_before_the_evaluation_is_away():
    def leave(client, received, cfg, scalars):
        if client == 1:
            lab.grid.contexts.pop(1_000_003 + client)
        return moved(client, received)

    lab = Lab(leave)
    strategy = lab.run(Averaging(min_replies=0.6))
    causes = [(f.phase, f.client, f.cause) for f in strategy.ledger.failures]
    assert causes == [("evaluate", 1, "it is away")]


def test_what_a_method_finds_wrong_is_dropped_and_named():
    class Picky(Averaging):
        def check(self, update, state, turn):
            if update.num_examples == 2:
                raise ValueError("two is unlucky")

    strategy = Lab(moved).run(Picky(min_replies=0.6))
    assert [f.cause for f in strategy.ledger.failures] == ["two is unlucky"]
    torch.testing.assert_close(strategy.params["w"], moved_mean(INITIAL["w"], [0, 2]))


def test_bad_replies_are_named_even_if_a_method_looks_at_none():
    class Deaf(Averaging):
        def update(self, params, state, updates, turn):
            return params, state

    with pytest.raises(RunStopped, match=r"client 2: Flower reports: .*disk full"):
        Lab(failing(2, raising)).run(Deaf())


def test_a_bad_evaluation_is_dropped_and_named():
    def evaluate(client, received, cfg, scalars):
        return Update({}, 1, score_metrics(0, "own", client, 1.0))

    strategy = Lab(moved, evaluate=evaluate).run(Averaging(min_replies=0.6))
    (failure,) = strategy.ledger.failures
    assert (failure.phase, failure.client) == ("evaluate", 2)
    assert "2 of 1 right" in failure.cause
    assert strategy.ledger.accuracy()["mean"] == 0.5


@pytest.mark.parametrize(
    ("clients", "good", "share", "simulated", "goes_on"),
    [
        (4, 2, 0.5, True, True),
        (4, 1, 0.5, True, False),
        (5, 2, 0.5, True, False),
        (3, 2, 0.0, True, False),
        (4, 2, 0.0, False, True),
        (4, 1, 0.0, False, False),
        # 0.28 * 25 is a little more than 7 in floating point.
        (25, 7, 0.28, True, True),
        (25, 6, 0.28, True, False),
        (3, 0, 0.01, True, False),
    ],
)
def test_how_many_replies_are_needed(clients, good, share, simulated, goes_on):
    def train(client, received, cfg, scalars):
        return moved(client, received) if client < good else raising(client, received)

    lab = Lab(train, clients, simulated)
    strategy = Averaging(min_replies=share)
    if goes_on:
        assert lab.run(strategy).round == 1
    else:
        with pytest.raises(RunStopped, match=f"{good} of {clients} clients"):
            lab.run(strategy)


def test_only_the_first_causes_are_listed_and_the_others_counted():
    with pytest.raises(RunStopped) as caught:
        Lab(lambda client, received, *_: raising(client, received), 8).run(Averaging())
    message = str(caught.value)
    assert [f"client {k}: " in message for k in range(8)] == [True] * 5 + [False] * 3
    assert message.endswith("and 3 more")


def test_after_a_stop_everything_is_as_the_last_whole_round_left_it():
    whole = Lab(moved).run(Averaging())
    strategy = Averaging()
    with pytest.raises(RunStopped, match="round 2, phase train"):
        Lab(failing(2, raising, round_that_fails=2)).run(strategy, rounds=3)
    assert torch.equal(strategy.params["w"], whole.params["w"])
    assert torch.equal(strategy.state["last-move"]["w"], whole.state["last-move"]["w"])
    assert (strategy.round, strategy.ledger.last_trained) == (1, {0: 1, 1: 1, 2: 1})
    for client in range(3):
        row, other = strategy.bank.read(client), whole.bank.read(client)
        assert row.round == 1
        assert torch.equal(row.part("model")["w"], other.part("model")["w"])


def test_a_stop_in_a_later_phase_undoes_the_phases_before():
    class TwoPhases(Averaging):
        def phases(self, turn):
            return ("one", "two")

    def train(client, received, cfg, scalars):
        if (cfg["round"], cfg["phase"], client) == (2, "two", 1):
            raising(client, received)
        return moved(client, received)

    strategy, whole = TwoPhases(), Lab(moved).run(TwoPhases())
    with pytest.raises(RunStopped, match="round 2, phase two"):
        Lab(train).run(strategy, rounds=2)
    assert torch.equal(strategy.params["w"], whole.params["w"])
    assert strategy.ledger.last_trained == {0: 1, 1: 1, 2: 1}
    assert strategy.bank.read(0).round == 1


def shuffled(ids):
    random.Random(len(ids)).shuffle(ids)
    return ids


@pytest.mark.parametrize("order", [lambda ids: ids[::-1], shuffled])
def test_the_order_of_replies_changes_no_bit(order):
    # Steps that differ by a factor of 1000: another order of summing rounds otherwise.
    lab = Lab(moved, 12, grid_class=answering(order))
    other, plain = lab.run(Averaging(), 3), Lab(moved, 12).run(Averaging(), 3)
    assert [k for _, phase, k in lab.asked if phase == "train"][:12] != list(range(12))
    assert torch.equal(other.params["w"], plain.params["w"])
    assert torch.equal(other.state["last-move"]["w"], plain.state["last-move"]["w"])
    assert other.ledger.scores == plain.ledger.scores


def test_updates_come_in_client_order_whatever_the_order_of_replies():
    seen = []

    class Watching(Averaging):
        def update(self, params, state, updates, turn):
            seen.extend(update.client for update in updates)
            return params, state

    Lab(moved, 5, grid_class=answering(lambda ids: ids[::-1])).run(Watching())
    assert seen == [0, 1, 2, 3, 4]


@dataclass(kw_only=True)
class Estimating(RoundStrategy):
    """First all clients estimate, then those with the largest estimates train."""

    def phases(self, turn):
        return ("estimate", "train") if turn.round == 1 else ("train",)

    def participants(self, state, turn):
        if turn.phase == "estimate":
            return range(turn.num_clients)
        return state["chosen"]["clients"].tolist()

    def broadcast(self, params, state, turn):
        return {"model": params} if turn.phase == "train" else {}

    def update(self, params, state, updates, turn):
        if turn.phase == "estimate":
            found = {u.client: u.metrics["estimate"] for u in updates}
            chosen = sorted(found, key=found.get)[-2:]
            return params, {"chosen": {"clients": torch.tensor(chosen)}}
        mean = WeightedMean()
        for update in updates:
            mean.add(update.sent["model"], update.num_examples)
        return mean.value(), state


def test_a_phase_sees_the_state_that_the_phase_before_left():
    def train(client, received, cfg, scalars):
        if cfg["phase"] == "estimate":
            return Update({}, 1, {"estimate": [0.3, 0.9, 0.1, 0.7][client]})
        return moved(client, received)

    lab = Lab(train, 4)
    strategy = lab.run(Estimating(fraction=0.5, evaluate_every=9), rounds=2)
    phases = {}
    for round_, phase, client in lab.asked:
        phases.setdefault((round_, phase), []).append(client)
    assert phases == {
        (1, "estimate"): [0, 1, 2, 3],
        (1, "train"): [1, 3],
        (2, "train"): [1, 3],
        (2, "evaluate"): [0, 1, 2, 3],
    }
    expected = moved_mean(moved_mean(INITIAL["w"], [1, 3]), [1, 3])
    torch.testing.assert_close(strategy.params["w"], expected)


class Preparing(Estimating):
    """The same, but that to estimate is not to train."""

    def trains(self, turn):
        return turn.phase == "train"


def estimating(*clients_that_fail):
    """Return clients that estimate themselves by number, and move."""

    def train(client, received, cfg, scalars):
        if cfg["phase"] == "train":
            return moved(client, received)
        if client in clients_that_fail:
            raise RuntimeError("disk full")
        return Update({}, 1, {"estimate": float(client)})

    return train


@pytest.mark.parametrize(
    ("rule", "trained"), [(Preparing, {2, 3}), (Estimating, {*range(4)})]
)
def test_who_takes_part_in_a_phase_that_trains_nobody_has_not_trained(rule, trained):
    strategy = Lab(estimating(), 4).run(rule())
    assert strategy.ledger.last_trained == dict.fromkeys(sorted(trained), 1)


def test_a_phase_that_trains_nobody_may_lack_replies():
    strategy = Lab(estimating(0, 1), 4).run(Preparing(min_replies=0.6))
    assert strategy.ledger.last_trained == {2: 1, 3: 1}
    assert [failure.client for failure in strategy.ledger.failures] == [0, 1]


@pytest.mark.parametrize(
    ("rule", "share"),
    [(Preparing, 1.0), (Preparing, 0.0), (Estimating, 0.6)],
    ids=["all-are-asked-for", "in-simulation-0-is-1", "it-trains"],
)
def test_other_phases_may_not(rule, share):
    with pytest.raises(RunStopped, match="round 1, phase estimate: 2 of 4"):
        Lab(estimating(0, 1), 4).run(rule(min_replies=share))


def test_the_steps_of_a_round_are_numbered_for_clients():
    seen = []

    class Steps(Averaging):
        def phases(self, turn):
            return ("one", "two")

    def train(client, received, cfg, scalars):
        seen.append((cfg["phase"], cfg["step"], cfg["round"], cfg["extra"]))
        return moved(client, received)

    Lab(train, 1).run(Steps(cfg={"extra": "x"}))
    assert seen == [("one", 0, 1, "x"), ("two", 1, 1, "x")]


@pytest.mark.parametrize("order", [lambda ids: ids, lambda ids: ids[::-1]])
def test_one_client_may_get_several_messages_in_a_phase(order):
    seen = []

    class Pairs(Averaging):
        def tasks(self, params, state, turn):
            for client in turn.sampled:
                for donor in (7, 8):
                    leaf = torch.tensor([float(10 * donor + client), 0.0])
                    yield Task(client, {"model": {"w": leaf}}, {"donor": donor})

        def update(self, params, state, updates, turn):
            for u in updates:
                seen.append(
                    (u.client, u.asked["donor"], u.sent["model"]["w"][0].item())
                )
            return params, state

    def echo(client, received, cfg, scalars):
        return Update({"model": received["model"]}, scalars["donor"])

    strategy = Lab(echo, 2, grid_class=answering(order)).run(Pairs())
    assert seen == [(0, 7, 70.0), (0, 8, 80.0), (1, 7, 71.0), (1, 8, 81.0)]
    assert strategy.ledger.last_trained == {0: 1, 1: 1}


def test_batch_counters_take_the_maximum_through_a_whole_round():
    def train(client, received, cfg, scalars):
        count = (
            received["model"]["num_batches_tracked"] + torch.tensor([5, 9, 7])[client]
        )
        leaves = {"w": torch.ones(1), "num_batches_tracked": count}
        return Update({"model": leaves}, [4, 1, 90][client])

    initial = {"w": torch.zeros(1), "num_batches_tracked": torch.tensor(3)}
    strategy = Lab(train).run(Averaging(evaluate_every=9), 2, initial)
    counter = strategy.params["num_batches_tracked"]
    assert (counter.item(), counter.dtype) == (3 + 9 + 9, torch.int64)


def test_unseen_clients_never_train_and_are_always_scored():
    lab = Lab(moved, 5)
    strategy = lab.run(Averaging(unseen_clients=2, fraction=0.67), rounds=6)
    trained = [(r, k) for r, phase, k in lab.asked if phase == "train"]
    assert {client for _, client in trained} == {0, 1, 2}
    assert [sum(r == round_ for r, _ in trained) for round_ in range(1, 7)] == [2] * 6
    assert [score.client for score in strategy.ledger.scores] == [0, 1, 2, 3, 4]


def test_evaluations_come_at_their_rounds_and_after_the_last():
    lab = Lab(moved, 1)
    lab.run(Averaging(evaluate_every=2), rounds=5)
    assert [r for r, phase, _ in lab.asked if phase == "evaluate"] == [2, 4, 5]


def test_clients_are_scored_with_what_personal_gives_them():
    class Personal(Averaging):
        def personal(self, params, state, clients, turn):
            for client in clients:
                row = turn.bank.read(client)
                yield Task(client, {"own": row.part("model")}, {"client": client})

    seen = []

    def evaluate(client, received, cfg, scalars):
        seen.append((client, scalars["client"], received["own"]["w"].tolist()))
        return scored(client)

    Lab(moved, 2, evaluate=evaluate).run(Personal())
    own = [moved(k, {"model": INITIAL}).sent["model"]["w"].tolist() for k in (0, 1)]
    assert seen == [(0, 0, own[0]), (1, 1, own[1])]


def test_a_hook_sees_its_turn():
    turns = []

    class Watching(Averaging):
        def broadcast(self, params, state, turn):
            turns.append(turn)
            return super().broadcast(params, state, turn)

    Lab(moved, 4).run(Watching(fraction=0.5, seed=3, groups=(1, 0, 1, 0)), rounds=2)
    first, second = ({(t.round, t.phase): t for t in turns}[r, "train"] for r in (1, 2))
    assert (second.rounds, second.num_clients, second.last) == (2, 4, True)
    assert (second.seed, second.groups) == (3, (1, 0, 1, 0))
    assert second.last_trained == dict.fromkeys(first.sampled, 1)
    assert first.last_trained == {}


def test_whoever_watches_may_stop_the_run():
    def stop():
        raise RunStopped("enough")

    with pytest.raises(RunStopped, match="enough"):
        Lab(moved).run(Averaging(alive=stop))


def test_the_initial_model_is_not_changed():
    initial = {"w": torch.tensor([0.5, -2.0])}
    Lab(moved).run(Averaging(), initial=initial)
    assert initial["w"].tolist() == [0.5, -2.0]


def driven(strategy, lab, rounds):
    """Run a strategy by Flower's own driver instead of ours."""
    arrays = records.to_record(INITIAL)
    Strategy.start(strategy, lab.grid, arrays, num_rounds=rounds)
    return strategy


def test_flowers_own_driver_gives_the_same_result():
    settings = {"fraction": 0.67, "unseen_clients": 1, "seed": 3}
    ours = Lab(moved, 7).run(Averaging(**settings), rounds=3)
    theirs = driven(Averaging(**settings), Lab(moved, 7), rounds=3)
    assert torch.equal(ours.params["w"], theirs.params["w"])
    assert torch.equal(ours.state["last-move"]["w"], theirs.state["last-move"]["w"])
    assert ours.ledger.last_trained == theirs.ledger.last_trained
    assert ours.ledger.scores == theirs.ledger.scores
    assert ours.bank.rounds == theirs.bank.rounds


def test_flowers_own_driver_counts_rounds_too():
    assert driven(Averaging(), Lab(moved), rounds=3).round == 3


def test_flowers_own_driver_gets_replies_in_any_order():
    class Reversed(InlineGrid):
        def send_and_receive(self, messages, *, timeout=None):
            return list(super().send_and_receive(messages))[::-1]

    other = driven(Averaging(), Lab(moved, 12, grid_class=Reversed), rounds=2)
    plain = Lab(moved, 12).run(Averaging(), rounds=2)
    assert torch.equal(other.params["w"], plain.params["w"])


def test_flowers_own_driver_stops_for_a_client_that_never_answers():
    class Deaf(InlineGrid):
        def send_and_receive(self, messages, *, timeout=None):
            return super().send_and_receive(list(messages)[1:])

    with pytest.raises(RunStopped, match="2 of 3 clients"):
        driven(Averaging(), Lab(moved, grid_class=Deaf), rounds=1)


def test_flowers_own_driver_stops_for_a_bad_reply():
    with pytest.raises(RunStopped, match=r"client 1: Flower reports: .*disk full"):
        driven(Averaging(), Lab(failing(1, raising)), rounds=1)
