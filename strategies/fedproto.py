"""FedProto, server side (Tan et al. 2022, arXiv 2105.00243)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedapp.algorithm import Scalars, Update
from fedapp.params import Params, Payload
from fedapp.prototype_log import Report, round_row
from fedapp.prototype_parts import COUNTS, check_classes, specs, to_parts
from fedapp.prototypes import Bank, PrototypeMean, Weighting
from fedapp.schedules import Shape, rounds_of, share_at
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Task, Turn


@dataclass(kw_only=True)
class FedProto(RoundStrategy):
    """Class prototypes are averaged over clients; models never leave them.

    A class that nobody reports keeps its prototype: the reference code forgets it. The
    weight of the alignment may follow a schedule; it is then computed here and sent,
    for a client that is sampled rarely cannot count rounds.
    """

    lam: Annotated[float, Field(ge=0, description="weight of the alignment")]
    schedule: Annotated[
        Shape, Field(description="how that weight grows over the first rounds")
    ]
    warm_up: Annotated[
        float, Field(ge=0, le=1, description="share of the rounds in which it grows")
    ]
    weighting: Annotated[
        Weighting,
        Field(description="clients count by their samples of a class, or equally"),
    ]

    table: ClassVar[str] = "fedproto"

    def init(self, initial: Params) -> tuple[Params, State]:
        classes, width = initial["head.weight"].shape
        return {}, {"prototypes": Bank.empty(classes, width).state}

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return to_parts(Bank.of_state(state["prototypes"]))

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        scalars = self.scalars(state, turn)
        for task in super().tasks(params, state, turn):
            yield task._replace(scalars=scalars)

    def scalars(self, state: State, turn: Turn) -> Scalars:
        """Return the numbers that go with the prototypes."""
        return {} if self.schedule == "constant" else {"lam": self.lam_in(turn)}

    def lam_in(self, turn: Turn) -> float:
        """Return the weight of the alignment in a round."""
        warm_up = rounds_of(self.warm_up, turn.rounds)
        elapsed = turn.round - 1
        return self.lam * share_at(self.schedule, elapsed=elapsed, warm_up=warm_up)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        width = state["prototypes"]["values"].shape[1]
        return {**specs(width), **COUNTS}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        classes = len(state["prototypes"]["known"])
        check_classes(update.sent, classes, "protos", "counts")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        before = Bank.of_state(state["prototypes"])
        mean = PrototypeMean(before, self.weighting)
        reports: list[Report] = []
        for update in updates:
            add(mean, update.sent)
            reports.append((update.metrics, update.num_examples))
        after = mean.merged(before)
        self.log(before, after, reports, turn)
        return params, {**state, "prototypes": after.state}

    def log(self, before: Bank, after: Bank, reports: list[Report], turn: Turn) -> None:
        """Write down what this round showed."""
        row = round_row(
            turn.round,
            lam=self.lam_in(turn),
            full=self.lam,
            before=before,
            after=after,
            reports=reports,
        )
        turn.log(f"{self.table}/rounds.csv", row)


def add(mean: PrototypeMean, sent: Payload) -> None:
    """Add the prototypes of one reply."""
    parts = (sent[name]["values"] for name in ("protos", "classes", "counts"))
    mean.add(*parts)
