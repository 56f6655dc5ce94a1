"""Messages through a Flower grid: who is there, and replies in order.

Registration asks nodes which client they are; node ids change with every run and
every restart, so nothing else knows them. Exchange keeps a bounded number of messages
under way and hands replies on in the order of the messages.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from logging import WARNING, getLogger
from os import cpu_count

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedapp import records
from fedapp.memory import Who
from fedapp.turn import Task

log = getLogger("flwr")

Alive = Callable[[], None]
"""Called while waiting; may raise to stop the run."""


Asked = tuple[Task, Message | None]
"""A task with its message, or with the reply to it; None if there is none."""


QUERY_SECONDS = 60.0
"""How long a node may take to say who it is: a new worker imports for many seconds."""


class RunStopped(RuntimeError):
    """The run cannot go on; the message says why and what to do."""


@dataclass
class Clients:
    """The clients that are there, and what they said of themselves.

    ``names`` are ids by client number, ``nodes`` has the node of each that is there.
    ``announced`` is the number of clients a simulation says it has. ``images`` has, by
    id, what devices said of their own data: channels, height, width, classes.
    ``strangers`` has the nodes that did not say who they are, and why not.
    """

    simulated: bool = True
    announced: int = 0
    names: list[str] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    images: dict[str, tuple[int, ...]] = field(default_factory=dict)
    strangers: dict[int, str] = field(default_factory=dict)
    _known: dict[int, str] = field(default_factory=dict)

    def refresh(
        self, grid: Grid, *, alive: Alive, seconds: float = QUERY_SECONDS
    ) -> None:
        """Learn of nodes that came or went since the last time."""
        present = set(grid.get_node_ids())
        for known in (self._known, self.strangers):
            for node in known.keys() - present:
                del known[node]
        strangers = sorted(present - self._known.keys())
        if strangers:
            self._ask(grid, strangers, seconds, alive)
        if not self.names:
            return
        number = {name: index for index, name in enumerate(self.names)}
        self.nodes = {
            number[name]: node for node, name in self._known.items() if name in number
        }

    def await_all(
        self,
        grid: Grid,
        count: int,
        *,
        seconds: float,
        alive: Alive,
    ) -> None:
        """Wait until ``count`` clients are there (0: at least one, then who is there).

        Raises
        ------
        RunStopped
            If they do not come in time, are more, or two have the same id.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.refresh(grid, alive=alive)
            found = sorted(self._known.values(), key=_natural)
            if len(set(found)) < len(found):
                twice = next(name for name in found if found.count(name) > 1)
                raise RunStopped(
                    f"two nodes say they are client {twice!r}; ids are unique"
                )
            if count > 0 and max(len(found), self.announced) > count:
                break
            if self.simulated and 0 < self.announced < count:
                break
            if found and len(found) >= count:
                self.names = found
                self.refresh(grid, alive=alive)
                return
            if time.monotonic() > deadline:
                break
            alive()
            time.sleep(0.1)
        raise RunStopped(
            f"{max(len(found), self.announced)} clients are there, but data.clients = "
            f"{count}{self._advice(count)}"
            + "".join(f"\n  node {n}: {why}" for n, why in self.strangers.items())
        )

    def _advice(self, count: int) -> str:
        if self.simulated:
            return (
                f': with flwr run, add --federation-config "num-supernodes={count} '
                'client-resources-num-cpus=1" (fedapp run does that), or change '
                "data.clients"
            )
        return (
            ": start more SuperNodes, change data.clients, or raise rounds.wait-seconds"
        )

    def _ask(self, grid: Grid, nodes: list[int], seconds: float, alive: Alive) -> None:
        asks = (
            (
                Task(-1, {}),
                Message(records.request({}, {}, {}), node, MessageType.QUERY),
            )
            for node in nodes
        )
        answers = exchange(grid, asks, window=64, seconds=seconds, alive=alive)
        for node, (_, answer) in zip(nodes, answers, strict=True):
            try:
                who = _who(answer)
            except ValueError as error:
                log.log(WARNING, "node %s is left out: %s", node, error)
                self.strangers[node] = str(error)
                continue
            self.strangers.pop(node, None)
            self._known[node] = who.name
            self.simulated, self.announced = who.simulated, who.clients
            if who.images:
                self.images[who.name] = who.images


def _who(answer: Message | None) -> Who:
    if answer is None:
        raise ValueError("it does not answer")
    if not answer.has_content():
        raise ValueError(report_of(answer.error.reason))
    return records.read_who(answer.content)


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


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)


@dataclass
class _Asking:
    """One message on its way."""

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
