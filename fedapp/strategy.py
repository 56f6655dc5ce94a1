"""RoundStrategy: the Flower strategy that every method extends.

It samples, sends, checks and sorts replies, evaluates and keeps state. A method
overrides hooks that take values and return values; docs/design.md has the picture.
"""

import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging import INFO, WARNING, getLogger
from math import ceil
from os import cpu_count
from pathlib import Path
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from threadpoolctl import threadpool_limits

from fedapp import records
from fedapp.algorithm import Scalars, Update
from fedapp.bank import Bank
from fedapp.checkpoint import Checkpoints, Commit
from fedapp.exchange import Alive, Asked, TooFewReplies, exchange, report_of
from fedapp.ledger import EVALUATE, Ledger, Score, scores_of
from fedapp.params import Params, Payload, num_bytes
from fedapp.registration import Clients
from fedapp.run_folder import RunFolder
from fedapp.turn import (
    Expected,
    State,
    Task,
    Turn,
    check_update,
    sample_clients,
    specs_of,
)
from fedapp.versions import START, Version, Versions

log = getLogger("flwr")

T = TypeVar("T")

IN_FLIGHT = 256 * 2**20
"""Bytes of messages under way at a time, unless workers need more to keep busy."""


TICK = 0.12
"""Seconds between groups of messages; the simulation looks for new ones every 0.1."""

LONG = 2.0
"""Seconds of a training phase from which the order of clients is worth a few ticks."""


def _nothing() -> None:
    """Let the run go on."""


@dataclass(kw_only=True)
class RoundStrategy(Strategy):
    """The rounds of a federation.

    ``num_clients`` counts all clients (0: whoever registers); the last
    ``unseen_clients`` of them never train. ``min_replies`` is the share of those asked
    that must give a valid reply (0: all in simulation, half on devices); on devices a
    phase with fewer is repeated with its round up to ``retries`` times. ``groups`` has
    each client's latent group, for diagnostics, and ``sizes`` its example count, where
    that is known: larger clients are asked first. ``cfg`` is sent with every message.
    With a ``folder``, every ``checkpoint_every``-th round is committed to disk, and a
    run whose folder has a commit goes on from there. ``alive`` is called while waiting
    and may raise to stop the run.
    """

    fraction: float = 1.0
    evaluate_every: int = 1
    seed: int = 0
    num_clients: int = 0
    unseen_clients: int = 0
    min_replies: float = 0.0
    retries: int = 0
    wait_seconds: float = 60.0
    reply_seconds: float = 3600.0
    groups: Sequence[int] = ()
    sizes: Sequence[int] = ()
    cfg: Scalars = field(default_factory=dict)
    folder: RunFolder | None = None
    checkpoint_every: int = 1
    alive: Alive = _nothing
    clients: Clients = field(default_factory=Clients)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.params: Params = {}
        self.state: State = {}
        self.round = 0
        self.rounds = 0
        self._long = False
        self._asked: list[Task] = []
        self.held: dict[int, Version] = {}
        """The version of each client's memory that goes with the last whole round."""
        self.ledger.folder = self.folder
        if self.folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="fedapp-bank-")
            self.bank = Bank(Path(self._temporary.name))
        else:
            self.bank = Bank(self.folder.path / "bank")
            self.checkpoints = Checkpoints(self.folder.path / "checkpoint")

    # Hooks of a method, in the order in which a round calls them.

    def init(self, initial: Params) -> tuple[Params, State]:
        """Return what the server starts from, given the common initial model."""
        return initial, {}

    def phases(self, turn: Turn) -> Sequence[str]:
        """Return the names of this round's phases; each sees the state so far."""
        return ("train",)

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        """Return who takes part in a phase: by default the shared sample S_t."""
        return turn.sampled

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        """Return what every participant receives."""
        return {"model": params}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        """Yield the messages of a phase, in client order; several to one are allowed.

        A client's messages of one phase all start from the same memory.
        """
        payload = self.broadcast(params, state, turn)
        for client in sorted(self.participants(state, turn)):
            yield Task(client, payload)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        """Return what a reply must hold: by default what ``broadcast`` sends."""
        sent = self.broadcast(params, state, turn)
        return {part: specs_of(tree) for part, tree in sent.items()}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        """Raise ValueError for a reply whose values cannot be; it is dropped."""

    @abstractmethod
    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        """Return the new model and state from valid replies.

        ``updates`` yields each reply once, in client order, one in memory at a time.
        """

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield what each of ``clients`` receives for evaluation and deployment.

        The round's updates are in: ``turn.bank`` has them. By default the broadcast.
        """
        payload = self.broadcast(params, state, turn)
        for client in clients:
            yield Task(client, payload)

    # The run.

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run all rounds, as ``Strategy.start``; ``reply_seconds`` is the time limit.

        Raises
        ------
        RunStopped
            If clients do not come, or too few give a valid reply. ``params``, ``state``
            and ``ledger`` then hold what the last whole round left.
        """
        result = Result()
        # Sums and decompositions must not depend on how many cores there are.
        with threadpool_limits(limits=1):
            self._set_up(grid, records.to_params(initial_arrays), num_rounds)
            for round_ in range(self.round + 1, num_rounds + 1):
                mark = time.monotonic()
                config = records.to_scalars(train_config)
                self._insist(grid, partial(self._train, grid, round_, config))
                mark = self.ledger.spent("train", mark)
                if round_ % self.evaluate_every == 0 or round_ == num_rounds:
                    sent = records.to_scalars(evaluate_config)
                    scoring = partial(self._evaluate, grid, round_, sent)
                    found = records.to_metrics(self._insist(grid, scoring))
                    result.evaluate_metrics_clientapp[round_] = found
                    self.ledger.spent("evaluate", mark)
                self._commit(round_)
                if evaluate_fn is not None:
                    metrics = evaluate_fn(round_, records.to_record(self.params))
                    if metrics is not None:
                        result.evaluate_metrics_serverapp[round_] = metrics
        result.arrays = records.to_record(self.params)
        return result

    def _set_up(self, grid: Grid, initial: Params, rounds: int) -> None:
        self.rounds = rounds
        self.ledger.show(stage="", round=0, rounds=rounds)
        if not self.clients.names:
            self.clients.await_all(
                grid,
                self.num_clients,
                seconds=self.wait_seconds,
                alive=self.alive,
            )
        self.num_clients = len(self.clients.names)
        self.ledger.unseen_from = self.num_clients - self.unseen_clients
        self.params, self.state = self.init(initial)
        self._go_on()

    def _go_on(self) -> None:
        """Take up the newest commit of the run folder, if it has one."""
        if self.folder is None:
            return
        commit = self.checkpoints.latest()
        self.folder.truncate(commit.tables if commit is not None else {})
        done = commit.round if commit is not None else 0
        self.bank.restore(commit.bank if commit is not None else {}, committed=done)
        Versions(self.folder.path / "memory").forget(after=done)
        if commit is not None:
            self.params, self.state, self.round = commit.params, commit.state, done
            self.held = dict(commit.held)
            self.ledger.restore(commit.books)
            log.log(INFO, "going on after round %s", done)

    def _commit(self, round_: int) -> None:
        """Make a round durable, when it is time to; see docs/design.md."""
        if self.folder is None:
            return
        if round_ % self.checkpoint_every and round_ != self.rounds:
            return
        self.checkpoints.write(
            Commit(
                round=round_,
                params=self.params,
                state=self.state,
                bank=self.bank.rounds,
                held=self.held,
                tables=self.folder.tables(),
                books=self.ledger.books(),
            )
        )
        commits = self.checkpoints.rounds()
        self.bank.commit(round_, commits=commits)
        memory = Versions(self.folder.path / "memory")
        for owner in memory.owners():
            memory.prune(owner, commits=commits, running=round_ + 1)

    def _insist(self, grid: Grid, what: Callable[[], T]) -> T:
        """Return what ``what`` does; on devices, repeat it if too few replied."""
        left = 0 if self.clients.simulated else self.retries
        while True:
            try:
                return what()
            except TooFewReplies as error:
                if left == 0:
                    raise
                log.log(WARNING, "%s\nIt is repeated (rounds.retries: %s)", error, left)
            left -= 1
            self.clients.await_back(grid, seconds=self.wait_seconds, alive=self.alive)

    def _train(self, grid: Grid, round_: int, config: Scalars) -> None:
        """Run the phases of a round; nothing of it counts unless all succeed."""
        params, state, held = self.params, self.state, dict(self.held)
        trained = set[int]()
        self.bank.discard()
        first = self._turn(round_, "", 0)
        for step, phase in enumerate(self.phases(first)):
            turn, mark = self._turn(round_, phase, step), time.monotonic()
            log.log(INFO, "[round %s of %s] %s", round_, self.rounds, phase)
            self.clients.refresh(grid, alive=self.alive)
            tasks = self.tasks(params, state, turn)
            asks = self._messages(tasks, turn, MessageType.TRAIN, config, held)
            answers = self._exchange(grid, asks, turn, len(first.sampled))
            expected, took_part = self.expects(params, state, turn), set[int]()
            valid = self._valid(answers, turn, expected, state, took_part)
            params, state = self.update(params, state, valid, turn)
            # A method may stop early; what is wrong with the rest must still be seen.
            for _ in valid:
                pass
            trained |= took_part
            held |= dict.fromkeys(took_part, (round_, step))
            spent = time.monotonic() - mark
            self._long = spent > LONG
            self.ledger.took(turn, None, spent)
        self.params, self.state, self.round = params, state, round_
        self.held = held
        self.ledger.last_trained |= dict.fromkeys(trained, round_)
        self.bank.commit(round_, commits=self._commits())

    def _evaluate(self, grid: Grid, round_: int, config: Scalars) -> dict[str, float]:
        """Score every client with what the method gives it."""
        turn, mark = self._turn(round_, EVALUATE, 0), time.monotonic()
        self.clients.refresh(grid, alive=self.alive)
        asks = self._messages(
            self._evaluations(turn), turn, MessageType.EVALUATE, config, self.held
        )
        answers = self._exchange(grid, asks, turn, self.num_clients)
        scores: list[Score] = []
        for update in self._valid(answers, turn, {}, self.state, set()):
            scores += scores_of(update)
        self.ledger.took(turn, None, time.monotonic() - mark)
        self.ledger.scored(turn, scores)
        found = self.ledger.accuracy()
        log.log(
            INFO,
            "[round %s of %s] accuracy: mean %.4f, worst client %.4f",
            round_,
            self.rounds,
            found["mean"],
            found["worst"],
        )
        self.ledger.show(evaluated=round_, mean=found["mean"], worst=found["worst"])
        return found

    def _evaluations(self, turn: Turn) -> Iterator[Task]:
        clients = range(self.num_clients)
        return self.personal(self.params, self.state, clients, turn)

    def _commits(self) -> list[int]:
        return self.checkpoints.rounds() if self.folder is not None else []

    # One phase.

    def _turn(self, round_: int, phase: str, step: int) -> Turn:
        return Turn(
            round=round_,
            rounds=self.rounds,
            phase=phase,
            step=step,
            num_clients=self.num_clients,
            sampled=sample_clients(
                seed=self.seed,
                round=round_,
                candidates=self.num_clients - self.unseen_clients,
                fraction=self.fraction,
            ),
            seed=self.seed,
            bank=self.bank,
            last_trained=dict(self.ledger.last_trained),
            groups=self.groups,
            log=self.ledger.row,
        )

    def _messages(
        self,
        tasks: Iterable[Task],
        turn: Turn,
        kind: str,
        config: Scalars,
        held: Mapping[int, Version],
    ) -> Iterator[Asked]:
        """Yield each task with its message, made when it is asked for.

        It says which version of its memory the client is to start from.
        """
        packer = records.Packer()
        cfg = {**self.cfg, "phase": turn.phase, "round": turn.round, "step": turn.step}
        cfg["commits"] = " ".join(str(round_) for round_ in self._commits())
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

    def _exchange(
        self, grid: Grid, asks: Iterable[Asked], turn: Turn, count: int
    ) -> Iterator[Asked]:
        size = max(1, num_bytes({"": self.params}))
        window = max(2 * (cpu_count() or 1), min(64, IN_FLIGHT // size))
        answers = exchange(
            grid,
            asks,
            window=window if self.clients.simulated else 1024,
            seconds=self.reply_seconds,
            alive=self.alive,
            size=lambda client: self.sizes[client] if self.sizes else 0,
            stagger=TICK if self.clients.simulated and self._long else 0.0,
        )
        self.ledger.show(stage="", round=turn.round, phase=turn.phase, done=0)
        for done, answer in enumerate(answers, start=1):
            self.ledger.show(lazily=True, done=done, asked=max(count, done))
            yield answer

    def _valid(
        self,
        answers: Iterable[Asked],
        turn: Turn,
        expected: Expected,
        state: State,
        trained: set[int],
    ) -> Iterator[Update]:
        """Yield valid replies and note whose they are; drop and name the others.

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
                if turn.phase == EVALUATE:
                    scores_of(update)
                else:
                    self.check(update, state, turn)
            except ValueError as error:
                name = self.clients.names[task.client]
                causes.append(f"client {name}: {error}")
                self.ledger.failed(turn, task.client, name, str(error))
                continue
            valid += 1
            trained.add(task.client)
            self.ledger.sent("up", turn, update.sent, update.metrics)
            self.ledger.took(turn, task.client, seconds)
            yield update
        share = self.min_replies or (1.0 if self.clients.simulated else 0.5)
        # The small number: 0.28 * 25 is 7.000000000000001 and would ask for 8.
        needed = min(asked, max(1, ceil(share * asked - 1e-9)))
        if valid < needed:
            more = "" if len(causes) <= 5 else f"\n  and {len(causes) - 5} more"
            raise TooFewReplies(
                f"round {turn.round}, phase {turn.phase}: {valid} of {asked} clients "
                f"gave a valid reply, {needed} are needed (rounds.min-replies = "
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

    # Flower's own driver calls these; it knows one phase a round. ``start`` does not.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of the ``train`` phase of a round."""
        if not self.clients.names:
            self._set_up(grid, records.to_params(arrays), 0)
        self.clients.refresh(grid, alive=self.alive)
        turn = self._turn(server_round, "train", 0)
        tasks = self.tasks(self.params, self.state, turn)
        sent = records.to_scalars(config)
        asks = self._messages(tasks, turn, MessageType.TRAIN, sent, self.held)
        return self._asking(asks)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new model from the replies to ``configure_train``."""
        turn, trained = self._turn(server_round, "train", 0), set[int]()
        expected = self.expects(self.params, self.state, turn)
        answers = self._by_client(replies)
        valid = self._valid(answers, turn, expected, self.state, trained)
        self.params, self.state = self.update(self.params, self.state, valid, turn)
        self.round = server_round
        self.held |= dict.fromkeys(trained, (server_round, 0))
        self.ledger.last_trained |= dict.fromkeys(trained, server_round)
        self.bank.commit(server_round)
        return records.to_record(self.params), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return one message to every client."""
        turn = self._turn(server_round, EVALUATE, 0)
        sent = records.to_scalars(config)
        tasks = self._evaluations(turn)
        asks = self._messages(tasks, turn, MessageType.EVALUATE, sent, self.held)
        return self._asking(asks)

    def _asking(self, asks: Iterable[Asked]) -> list[Message]:
        pairs = list(asks)
        self._asked = [task for task, _ in pairs]
        return [message for _, message in pairs if message is not None]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return accuracies over clients."""
        turn = self._turn(server_round, EVALUATE, 0)
        valid = self._valid(self._by_client(replies), turn, {}, self.state, set())
        self.ledger.scored(turn, [s for update in valid for s in scores_of(update)])
        return records.to_metrics(self.ledger.accuracy())

    def _by_client(self, replies: Iterable[Message]) -> Iterator[Asked]:
        client_of = {node: client for client, node in self.clients.nodes.items()}
        found = {client_of[r.metadata.src_node_id]: r for r in replies}
        for task in self._asked:
            yield task, found.get(task.client)

    def summary(self) -> None:
        """Log the method and how it samples."""
        log.log(
            INFO,
            "%s: fraction %s of the clients, evaluation every %s rounds, seed %s",
            type(self).__name__,
            self.fraction,
            self.evaluate_every,
            self.seed,
        )
