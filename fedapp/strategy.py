"""RoundStrategy: the Flower strategy that every method extends.

It runs the phases of a round, evaluates, and commits. What a method decides are its
hooks (``fedapp/hooks.py``); messages and replies are the ``Post``'s.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from logging import INFO, WARNING, getLogger
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from threadpoolctl import threadpool_limits

from fedapp import records
from fedapp.algorithm import Scalars
from fedapp.checkpoint import Commit
from fedapp.exchange import Alive, Asked, TooFewReplies
from fedapp.hooks import Hooks
from fedapp.ledger import EVALUATE, Ledger, Score, scores_of
from fedapp.params import Params, num_bytes
from fedapp.post import Post
from fedapp.registration import Clients
from fedapp.run_folder import RunFolder
from fedapp.storage import Storage
from fedapp.turn import State, Task, Turn, sample_clients
from fedapp.versions import Version

log = getLogger("flwr")

T = TypeVar("T")

LONG = 2.0
"""Seconds of a training phase from which the order of clients is worth a few ticks."""


def _nothing() -> None:
    """Let the run go on."""


def _no_other(seed: int) -> Params:
    raise ValueError(f"no way to build the initial model of seed {seed} was given")


@dataclass(kw_only=True)
class RoundStrategy(Hooks, Strategy):
    """The rounds of a federation.

    ``num_clients`` counts all clients (0: whoever registers); the last
    ``unseen_clients`` of them never train. ``min_replies`` is the share of those asked
    that must give a valid reply (0: all in simulation, half on devices); on devices a
    phase with fewer is repeated with its round up to ``retries`` times. ``groups`` has
    each client's latent group, for diagnostics, and ``sizes`` its example count, where
    that is known: larger clients are asked first. ``cfg`` is sent with every message.
    ``other_start`` returns the initial model of another seed, for methods with several.
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
    other_start: Callable[[int], Params] = _no_other
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
        self.post = Post(
            clients=self.clients,
            ledger=self.ledger,
            cfg=self.cfg,
            sizes=self.sizes,
            min_replies=self.min_replies,
            reply_seconds=self.reply_seconds,
            alive=self.alive,
        )
        self.storage = Storage(self.folder)
        self.bank = self.storage.bank

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
        commit = self.storage.take_up()
        if commit is not None:
            self.params, self.state = commit.params, commit.state
            self.round = commit.round
            self.held = dict(commit.held)
            self.ledger.restore(commit.books)
            log.log(INFO, "going on after round %s", commit.round)

    def _commit(self, round_: int) -> None:
        """Make a round durable, when it is time to; see docs/design.md."""
        if self.folder is None:
            return
        if round_ % self.checkpoint_every and round_ != self.rounds:
            return
        self.storage.write(
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
            answers = self._ask(
                grid, tasks, turn, config, held=held, count=len(first.sampled)
            )
            expected, took_part = self.expects(params, state, turn), set[int]()
            check = partial(self.check, state=state, turn=turn)
            trains = self.trains(turn)
            valid = self.post.valid(
                answers, turn, expected, check, took_part, needed=trains
            )
            params, state = self.update(params, state, valid, turn)
            # A method may stop early; what is wrong with the rest must still be seen.
            for _ in valid:
                pass
            trained |= took_part if trains else set()
            held |= dict.fromkeys(took_part, (round_, step))
            spent = time.monotonic() - mark
            self._long = spent > LONG
            self.ledger.took(turn, None, spent)
        self.params, self.state, self.round = params, state, round_
        self.held = held
        self.ledger.last_trained |= dict.fromkeys(trained, round_)
        self.bank.commit(round_, commits=self.storage.commits())

    def _evaluate(self, grid: Grid, round_: int, config: Scalars) -> dict[str, float]:
        """Score every client with what the method gives it."""
        turn, mark = self._turn(round_, EVALUATE, 0), time.monotonic()
        self.clients.refresh(grid, alive=self.alive)
        answers = self._ask(
            grid,
            self._evaluations(turn),
            turn,
            config,
            held=self.held,
            count=self.num_clients,
        )
        scores: list[Score] = []
        for update in self.post.valid(answers, turn, {}, scores_of, set()):
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

    def _ask(
        self,
        grid: Grid,
        tasks: Iterable[Task],
        turn: Turn,
        config: Scalars,
        *,
        held: dict[int, Version],
        count: int,
    ) -> Iterator[Asked]:
        # Some methods send several models in a message: the first one shows.
        tasks = iter(tasks)
        first = list(islice(tasks, 1))
        sizes = [num_bytes({"": self.params}), *(num_bytes(t.payload) for t in first)]
        return self.post.exchange(
            grid,
            self._messages(chain(first, tasks), turn, config, held=held),
            turn,
            count=count,
            size=max(sizes),
            stagger=self._long,
        )

    def _messages(
        self,
        tasks: Iterable[Task],
        turn: Turn,
        config: Scalars,
        *,
        held: dict[int, Version],
    ) -> Iterator[Asked]:
        evaluating = turn.phase == EVALUATE
        return self.post.messages(
            tasks,
            turn,
            kind=MessageType.EVALUATE if evaluating else MessageType.TRAIN,
            config=config,
            held=held,
            commits=self.storage.commits(),
        )

    def sample(self, round_: int) -> tuple[int, ...]:
        """Return the shared sample S_t of a round."""
        return sample_clients(
            seed=self.seed,
            round=round_,
            candidates=self.num_clients - self.unseen_clients,
            fraction=self.fraction,
        )

    def _turn(self, round_: int, phase: str, step: int) -> Turn:
        return Turn(
            round=round_,
            rounds=self.rounds,
            phase=phase,
            step=step,
            num_clients=self.num_clients,
            sampled=self.sample(round_),
            seed=self.seed,
            bank=self.bank,
            last_trained=dict(self.ledger.last_trained),
            groups=self.groups,
            log=self.ledger.row,
        )

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
        return self._asking(self._messages(tasks, turn, sent, held=self.held))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new model from the replies to ``configure_train``."""
        turn, trained = self._turn(server_round, "train", 0), set[int]()
        expected = self.expects(self.params, self.state, turn)
        answers = self._by_client(replies)
        check = partial(self.check, state=self.state, turn=turn)
        valid = self.post.valid(answers, turn, expected, check, trained)
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
        return self._asking(self._messages(tasks, turn, sent, held=self.held))

    def _asking(self, asks: Iterable[Asked]) -> list[Message]:
        pairs = list(asks)
        self._asked = [task for task, _ in pairs]
        return [message for _, message in pairs if message is not None]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return accuracies over clients."""
        turn = self._turn(server_round, EVALUATE, 0)
        answers = self._by_client(replies)
        valid = self.post.valid(answers, turn, {}, scores_of, set())
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
