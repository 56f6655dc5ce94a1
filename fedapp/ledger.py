"""What happened in a run: scores, failures, traffic, times. Kept, and written down."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from logging import WARNING, getLogger
from math import inf
from typing import Any

from fedapp.algorithm import Scalars, Update
from fedapp.metrics import over_clients
from fedapp.params import Payload, num_bytes
from fedapp.run_folder import METRICS, TIMING, RunFolder
from fedapp.turn import Turn

log = getLogger("flwr")

EVALUATE = "evaluate"
TAIL = ("worst", "bottom20", "gap")


@dataclass(frozen=True)
class Score:
    """How one model did on one client's test samples; ``loss`` is the mean."""

    client: int
    model: str
    examples: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Failure:
    """A reply that was dropped, and why."""

    round: int
    phase: str
    client: int
    cause: str


def scores_of(update: Update) -> list[Score]:
    """Return the scores in an evaluation reply, the method's own model first.

    Raises
    ------
    ValueError
        If there is none, or one is impossible.
    """
    scores, total = [], update.num_examples
    for name in sorted(update.metrics):
        if not name.endswith("/correct"):
            continue
        correct, key = update.metrics[name], name.removesuffix("/correct")
        loss = update.metrics.get(f"{key}/loss", -1.0)
        model = key.partition("/")[2]
        if not 0 <= correct <= total or loss < 0:
            raise ValueError(
                f"its score of model {model!r} cannot be: {correct} of {total} right, "
                f"sum of losses {loss}"
            )
        scores.append(Score(update.client, model, total, loss / total, correct / total))
    if not scores:
        raise ValueError("it has no score")
    return scores


def score_metrics(
    index: int, model: str, correct: int, loss: float
) -> dict[str, float]:
    """Return the metrics that report the score of a client's ``index``-th model."""
    return {f"{index:02}/{model}/correct": correct, f"{index:02}/{model}/loss": loss}


def _over(scores: list[Score]) -> dict[str, float]:
    return over_clients([s.accuracy for s in scores], [s.examples for s in scores])


@dataclass
class Ledger:
    """The books of one run. Without a folder nothing is written.

    Clients from ``unseen_from`` on never train; they do not count in accuracies.
    """

    folder: RunFolder | None = None
    unseen_from: float = inf
    last_trained: dict[int, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    traffic: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    before: float = 0.0

    @property
    def total_seconds(self) -> float:
        """Seconds since the books were opened, those before a resumption included."""
        return self.before + time.monotonic() - self.started

    def failed(self, turn: Turn, client: int, name: str, cause: str) -> None:
        """Note that the reply of a client was dropped."""
        self.failures.append(Failure(turn.round, turn.phase, client, cause))
        log.log(
            WARNING,
            "[round %s] %s: reply of client %s dropped: %s",
            turn.round,
            turn.phase,
            name,
            cause,
        )

    def sent(self, way: str, turn: Turn, payload: Payload, scalars: Scalars) -> None:
        """Count tensors and scalars (four bytes each) that go ``down`` or ``up``."""
        phase = EVALUATE if turn.phase == EVALUATE else "train"
        key = f"{phase}_{way}_bytes"
        size = num_bytes(payload) + 4 * len(scalars)
        self.traffic[key] = self.traffic.get(key, 0) + size

    def took(self, turn: Turn, client: int | None, seconds: float) -> None:
        """Write down how long a client worked; None stands for the whole phase."""
        if self.folder is not None:
            who = "" if client is None else client
            cells = (turn.round, turn.phase, who, round(seconds, 4))
            self.folder.row("timing.csv", dict(zip(TIMING, cells, strict=True)))

    def spent(self, what: str, since: float) -> float:
        """Add the time since ``since`` to ``what``; return the time now."""
        now = time.monotonic()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - since
        return now

    def scored(self, turn: Turn, scores: list[Score]) -> None:
        """Keep the scores of an evaluation and write them down."""
        self.scores = scores
        if self.folder is None:
            return
        for score in scores:
            last = self.last_trained.get(score.client, 0)
            cells = {
                **asdict(score),
                "round": turn.round,
                "phase": turn.phase,
                "trained": str(last > 0).lower(),
                "last_trained_round": last,
            }
            self.folder.row("metrics.csv", {name: cells[name] for name in METRICS})

    def main_scores(self) -> list[Score]:
        """Return each client's score with the method's own model, last evaluation."""
        found: dict[int, Score] = {}
        for score in self.scores:
            found.setdefault(score.client, score)
        return list(found.values())

    def accuracy(self) -> dict[str, float]:
        """Return accuracies over clients, as ``over_clients``, at the last evaluation.

        Unseen clients are left out. Clients that never trained so far are left out of
        worst, bottom 20 % and gap, unless none ever did.
        """
        seen = [s for s in self.main_scores() if s.client < self.unseen_from]
        trained = [s for s in seen if s.client in self.last_trained] or seen
        return _over(seen) | {name: _over(trained)[name] for name in TAIL}

    def books(self) -> dict[str, Any]:
        """Return what a resumed run needs to know, as plain values."""
        return {
            "last_trained": {str(k): r for k, r in self.last_trained.items()},
            "failures": [asdict(failure) for failure in self.failures],
            "traffic": dict(self.traffic),
            "seconds": dict(self.seconds),
            "total_seconds": self.total_seconds,
            "scores": [asdict(score) for score in self.scores],
        }

    def restore(self, books: Mapping[str, Any]) -> None:
        """Take up what ``books`` said."""
        self.last_trained = {int(k): r for k, r in books["last_trained"].items()}
        self.failures = [Failure(**failure) for failure in books["failures"]]
        self.traffic = dict(books["traffic"])
        self.seconds = dict(books["seconds"])
        self.before = books["total_seconds"]
        self.scores = [Score(**score) for score in books["scores"]]

    def row(self, table: str, row: Mapping[str, int | float | str | bool]) -> None:
        """Append a row to a table of the method."""
        if self.folder is not None:
            self.folder.row(table, row)

    def show(self, *, lazily: bool = False, **news: int | float | str) -> None:
        """Update what a display shows; ``lazily``: at most five times a second."""
        if self.folder is not None:
            self.folder.progress(lazily=lazily, **news)
