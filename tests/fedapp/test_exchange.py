import time

import pytest
import torch
from flwr.app import Message, MessageType, RecordDict
from post import Post, nothing

from fedapp.exchange import RunStopped, exchange, report_of
from fedapp.inline import InlineGrid
from fedapp.turn import Task

pytestmark = pytest.mark.usefixtures("inside_a_run")


def asks(*nodes):
    """Yield one message to each node, made when it is asked for; None: it is away."""
    for number, node in enumerate(nodes):
        message = Message(RecordDict(), node, MessageType.TRAIN) if node else None
        yield Task(number, {}), message


def answers(grid, messages, *, window=10, seconds=60.0, alive=nothing):
    for task, reply in exchange(
        grid, messages, window=window, seconds=seconds, alive=alive
    ):
        yield task.client, reply and reply.content["from"]["node"]


@pytest.mark.parametrize(
    "pick",
    [
        lambda ids: ids[:1],
        lambda ids: ids[-1:],
        lambda ids: ids[::-1],
        lambda ids: ids[len(ids) // 2 :][:1],
    ],
    ids=["first", "last", "all-reversed", "middle"],
)
def test_replies_come_in_the_order_of_messages_whatever_arrives_first(pick):
    nodes = [17, 11, 19, 13, 11]
    found = list(answers(Post(pick), asks(*nodes)))
    assert found == list(enumerate(nodes))


def test_no_more_messages_are_under_way_than_the_window_allows():
    grid, most = Post(lambda ids: ids[-1:]), 0
    for done, _ in enumerate(answers(grid, asks(*range(1, 21)), window=3), start=1):
        most = max(most, len(grid.pushed) - done + 1)
    assert (most, len(grid.pushed)) == (3, 20)


def test_messages_are_made_only_as_the_window_allows():
    made = []

    def watched():
        for item in asks(*range(1, 11)):
            made.append(item[0].client)
            yield item

    replies = answers(Post(), watched(), window=3)
    assert made == []
    next(replies)
    assert made == [0, 1, 2]
    next(replies)
    assert made == [0, 1, 2, 3]


def test_a_message_that_is_never_answered_yields_none_and_holds_up_no_other():
    grid = Post(lambda ids: [i for i in ids if i != "m1"][-1:])
    started = time.monotonic()
    found = list(answers(grid, asks(11, 12, 13), seconds=0.3))
    assert found == [(0, 11), (1, None), (2, 13)]
    assert 0.3 <= time.monotonic() - started < 3


def test_a_client_that_is_away_is_sent_nothing_and_yields_none():
    grid = Post()
    assert list(answers(grid, asks(11, None, 13))) == [(0, 11), (1, None), (2, 13)]
    assert grid.pushed == [11, 13]


def test_no_messages_no_replies():
    assert list(answers(Post(), asks())) == []


def test_whoever_watches_may_stop_the_waiting():
    def stop():
        raise RunStopped("enough")

    with pytest.raises(RunStopped, match="enough"):
        list(answers(Post(lambda ids: []), asks(11), alive=stop))


def test_larger_clients_are_asked_first_and_replies_keep_their_order(inside_a_run):
    grid = InlineGrid(
        lambda message, context: Message(RecordDict(), reply_to=message), 4, {}
    )
    pushed = []
    push = grid.push_messages
    grid.push_messages = lambda messages: push(
        [pushed.append(m) or m for m in messages]
    )
    nodes = list(grid.get_node_ids())
    asks = [
        (Task(k, {}), Message(RecordDict(), node, "train"))
        for k, node in enumerate(nodes)
    ]
    sizes = [5, 20, 1, 10]
    answers = list(
        exchange(
            grid,
            asks,
            window=4,
            seconds=5,
            alive=nothing,
            size=lambda client: sizes[client],
            stagger=0.01,
        )
    )
    assert [nodes.index(m.metadata.dst_node_id) for m in pushed] == [1, 3, 0, 2]
    assert [task.client for task, _ in answers] == [0, 1, 2, 3]
    assert all(reply is not None for _, reply in answers)


def test_messages_of_one_client_may_hold_different_tensors():
    # Compared by value, tensors of several elements would be neither equal nor not.
    tasks = [Task(0, {"model": {"w": torch.full((2,), v)}}) for v in (1.0, 2.0, 3.0)]
    asks = [(task, Message(RecordDict(), 7, MessageType.TRAIN)) for task in tasks]
    found = exchange(Post(), asks, window=3, seconds=5, alive=nothing, stagger=0.01)
    assert [task.payload["model"]["w"][0].item() for task, _ in found] == [1, 2, 3]


RAY = """<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly.
\tclass_name: ClientAppActor
\tpid: 31
The actor is dead because its worker process has died.'>"""


@pytest.mark.parametrize(
    ("reason", "report"),
    [
        (RAY, "ActorDiedError: The actor died unexpectedly."),
        ("<class 'a.B'>:<'\nException B occurred. Message: x'>", "B: Exception B occu"),
        ("RuntimeError: disk full", "RuntimeError: disk full"),
        ("", "no reason"),
    ],
)
def test_a_report_is_the_first_line_that_says_something(reason, report):
    found = report_of(reason)

    assert found.startswith(f"Flower reports: {report}")
    assert "\n" not in found
