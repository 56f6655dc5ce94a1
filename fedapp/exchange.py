"""Messages through a Flower grid: a bounded number under way, replies in order."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

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


def exchange(
    grid: Grid,
    messages: Iterable[Asked],
    *,
    window: int,
    seconds: float,
    alive: Alive,
) -> Iterator[Asked]:
    """Send messages, at most ``window`` at a time; yield replies in their order.

    A message that is None (its client is away) yields None; so does one that is not
    answered while nothing at all arrives for ``seconds``. ``messages`` is consumed only
    as the window allows.
    """
    source = iter(messages)
    pending: deque[tuple[Task, str, float]] = deque()
    arrived: dict[str, Message] = {}
    pause, heard = 0.002, 0.0
    while True:
        while len(pending) < window and (item := next(source, None)) is not None:
            task, message = item
            ids = list(grid.push_messages([message])) if message is not None else []
            pending.append((task, ids[0] if ids else "", time.monotonic()))
            del message, item
        if not pending:
            return
        task, message_id, sent = pending[0]
        # A worker may be busy with other clients: silence counts, not waiting in line.
        late = time.monotonic() - max(sent, heard) > seconds
        if message_id in arrived or not message_id or late:
            pending.popleft()
            yield task, arrived.pop(message_id, None)
            continue
        wanted = [i for _, i, _ in pending if i and i not in arrived]
        news = list(grid.pull_messages(wanted))
        arrived |= {reply.metadata.reply_to_message_id: reply for reply in news}
        alive()
        if news:
            pause, heard = 0.002, time.monotonic()
        else:
            pause = min(0.1, pause * 1.5)
            time.sleep(pause)
        del news
