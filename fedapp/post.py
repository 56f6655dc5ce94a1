"""One phase by mail: tasks become messages, and replies become checked updates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from os import cpu_count

from flwr.app import Message
from flwr.serverapp import Grid

from fedapp import records
from fedapp.algorithm import Scalars, Update
from fedapp.exchange import Alive, Asked, TooFewReplies, exchange, report_of
from fedapp.ledger import Ledger
from fedapp.registration import Clients
from fedapp.turn import Expected, Task, Turn, check_update
from fedapp.versions import START, Version

IN_FLIGHT = 256 * 2**20
"""Bytes of messages under way at a time, unless workers need more to keep busy."""

TICK = 0.12
"""Seconds between groups of messages; the simulation looks for new ones every 0.1."""


@dataclass(frozen=True, kw_only=True)
class Post:
    """Asks clients and sorts their replies; the ledger hears of both.

    Fields are those of ``RoundStrategy``.
    """

    clients: Clients
    ledger: Ledger
    cfg: Scalars
    sizes: Sequence[int]
    min_replies: float
    reply_seconds: float
    alive: Alive

    def messages(
        self,
        tasks: Iterable[Task],
        turn: Turn,
        *,
        kind: str,
        config: Scalars,
        held: Mapping[int, Version],
        commits: Sequence[int],
    ) -> Iterator[Asked]:
        """Yield each task with its message, made when it is asked for.

        It says which version of its memory (``held``) the client is to start from, and
        which rounds are on disk (``commits``).
        """
        packer = records.Packer()
        cfg = {**self.cfg, "phase": turn.phase, "round": turn.round, "step": turn.step}
        cfg["commits"] = " ".join(str(round_) for round_ in commits)
        for task in tasks:
            node = self.clients.nodes.get(task.client)
            if node is None:
                yield task, None
                continue
            scalars = {**config, **task.scalars}
            self.ledger.sent("down", turn, task.payload, scalars)
            start = held.get(task.client, START)
            own = {"client": task.client, "held-round": start[0], "held-step": start[1]}
            content = records.request(
                packer.pack(task.payload), {**cfg, **own}, scalars
            )
            yield task, Message(content, node, kind, group_id=str(turn.round))

    def exchange(
        self,
        grid: Grid,
        asks: Iterable[Asked],
        turn: Turn,
        *,
        count: int,
        size: int,
        stagger: bool,
    ) -> Iterator[Asked]:
        """Send messages and yield replies in order; ``count`` is a guess for progress.

        ``size`` is that of a message in bytes. ``stagger`` lets a simulation begin with
        the largest clients, at the cost of a few ticks.
        """
        window = max(2 * (cpu_count() or 1), min(64, IN_FLIGHT // max(1, size)))
        answers = exchange(
            grid,
            asks,
            window=window if self.clients.simulated else 1024,
            seconds=self.reply_seconds,
            alive=self.alive,
            size=lambda client: self.sizes[client] if self.sizes else 0,
            stagger=TICK if self.clients.simulated and stagger else 0.0,
        )
        self.ledger.show(stage="", round=turn.round, phase=turn.phase, done=0)
        for done, answer in enumerate(answers, start=1):
            self.ledger.show(lazily=True, done=done, asked=max(count, done))
            yield answer

    def valid(
        self,
        answers: Iterable[Asked],
        turn: Turn,
        expected: Expected,
        check: Callable[[Update], object],
        took_part: set[int],
        *,
        needed: bool = True,
    ) -> Iterator[Update]:
        """Yield valid replies and note whose they are; drop and name the others.

        ``check`` raises ValueError for a reply whose values cannot be. Replies that are
        not ``needed`` may all be missing, unless ``min_replies`` asks for every one.

        Raises
        ------
        TooFewReplies
            After the last reply, if too few were valid.
        """
        asked = valid = 0
        causes: list[str] = []
        for task, message in answers:
            asked += 1
            try:
                update, seconds = self._read(task, message)
                check_update(update, expected)
                check(update)
            except ValueError as error:
                name = self.clients.names[task.client]
                causes.append(f"client {name}: {error}")
                self.ledger.failed(turn, task.client, name, str(error))
                continue
            valid += 1
            took_part.add(task.client)
            self.ledger.sent("up", turn, update.sent, update.metrics)
            self.ledger.took(turn, task.client, seconds)
            yield update
        share = self.min_replies or (1.0 if self.clients.simulated else 0.5)
        # The small number: 0.28 * 25 is 7.000000000000001 and would ask for 8.
        least = min(asked, max(1, ceil(share * asked - 1e-9)))
        if valid < least and (needed or share == 1):
            more = "" if len(causes) <= 5 else f"\n  and {len(causes) - 5} more"
            raise TooFewReplies(
                f"round {turn.round}, phase {turn.phase}: {valid} of {asked} clients "
                f"gave a valid reply, {least} are needed (rounds.min-replies = "
                f"{share:g}). What went wrong:\n  " + "\n  ".join(causes[:5]) + more
            )

    def _read(self, task: Task, message: Message | None) -> tuple[Update, float]:
        if task.client not in self.clients.nodes:
            raise ValueError("it is away")
        if message is None:
            raise ValueError(
                f"no reply within rounds.reply-seconds = {self.reply_seconds:g}"
            )
        if message.has_error():
            raise ValueError(report_of(message.error.reason))
        update, seconds = records.read_reply(message.content, asked=task.scalars)
        if update.client != task.client:
            raise ValueError(f"it says it is client {update.client}")
        return update, seconds
