"""Messages through a Flower grid: a bounded number under way, replies in order."""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import cpu_count

from flwr.app import Message
from flwr.serverapp import Grid

from fedapp.turn import Task

Alive = Callable[[], None]
"""Called while waiting; may raise to stop the run."""


Asked = tuple[Task, Message | None]
"""A task with its message, or with the reply to it; None if there is none."""


class RunStopped(RuntimeError):
    """The run cannot go on; the message says why and what to do."""


class TooFewReplies(RunStopped):
    """Fewer clients gave a valid reply than ``rounds.min-replies`` asks for."""


def report_of(reason: str | None) -> str:
    """Return the first line of Flower's reason for an error that says something.

    An exception comes as ``<class 'package.Name'>:<'text'>``; Ray's text has a dozen
    lines, of which the first tells what happened.
    """
    name, text = "", reason or ""
    if wrapped := re.match(r"<class '([\w.]+)'>:<'", text):
        name = wrapped[1].rpartition(".")[2] + ": "
        text = text[wrapped.end() :].removesuffix("'>")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Flower reports: {name}{lines[0] if lines else 'no reason'}"


@dataclass(eq=False)
class _Asking:
    """One message on its way; equal to itself only."""

    task: Task
    message: Message | None
    id: str = ""
    sent: float = 0.0


def exchange(
    grid: Grid,
    messages: Iterable[Asked],
    *,
    window: int,
    seconds: float,
    alive: Alive,
    size: Callable[[int], int] = lambda client: 0,
    stagger: float = 0.0,
) -> Iterator[Asked]:
    """Send messages, at most ``window`` at a time; yield replies in their order.

    Within the window the largest clients (by ``size``) are sent first, so that no
    worker ends with a long task alone. ``stagger`` is the pause in seconds between
    groups of messages, which double: a simulation takes what lies before it in the
    order of its nodes. A message that is None (its client is away) yields None; so
    does one that is not answered while nothing at all arrives for ``seconds``.
    ``messages`` is consumed only as the window allows.
    """
    source = iter(messages)
    pending: deque[_Asking] = deque()
    unsent: list[_Asking] = []
    arrived: dict[str, Message] = {}
    pause, heard, next_group, group = 0.002, 0.0, 0.0, cpu_count() or 1
    while True:
        while len(pending) < window and (item := next(source, None)) is not None:
            pending.append(_Asking(*item))
            if pending[-1].message is not None:
                unsent.append(pending[-1])
            del item
        if not pending:
            return
        if unsent and time.monotonic() >= next_group:
            unsent.sort(key=lambda asking: -size(asking.task.client))
            count = group if stagger else len(unsent)
            for asking in unsent[:count]:
                _send(grid, asking)
            del unsent[:count]
            next_group, group = time.monotonic() + stagger, 2 * group
        first = pending[0]
        # A worker may be busy with other clients: silence counts, not waiting in line.
        silent = first.sent and time.monotonic() - max(first.sent, heard) > seconds
        lost = first not in unsent and not first.id
        if first.id in arrived or lost or silent:
            pending.popleft()
            yield first.task, arrived.pop(first.id, None)
            continue
        wanted = [a.id for a in pending if a.id and a.id not in arrived]
        news = list(grid.pull_messages(wanted))
        arrived |= {reply.metadata.reply_to_message_id: reply for reply in news}
        alive()
        if news:
            pause, heard = 0.002, time.monotonic()
        else:
            pause = min(0.1, pause * 1.5)
            time.sleep(pause)
        del news


def _send(grid: Grid, asking: _Asking) -> None:
    assert asking.message is not None
    ids = list(grid.push_messages([asking.message]))
    # The grid has it now; here it would keep its tensors in memory.
    asking.message, asking.id, asking.sent = None, (ids or [""])[0], time.monotonic()
