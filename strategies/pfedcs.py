"""PFedCS, server side (Wu et al. 2025, AAAI 39(20), pages 21572 to 21580)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.bank import Row
from fedapp.collaborators import Floats, collaborators, distances, shares
from fedapp.params import Params, select, weighted_mean
from fedapp.turn import Expected, State, Task, Turn, specs_of
from strategies.fedper import FedPer


@dataclass(kw_only=True)
class PFedCS(FedPer):
    """FedPer; in a first stage each client also gets a head mixed from similar ones.

    The bank has the newest head of every client; biases do not count in distances. A
    client whose head is not known gets the common initial one.
    """

    first_stage: Annotated[
        int, Field(ge=0, description="rounds of the first stage (beta); 0: half of all")
    ]
    similarity: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="share of likeness in a teacher's weights; rest: size",
        ),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        return select(initial, "encoder"), {"initial-head": select(initial, "head")}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        if not self._first(turn):
            yield from super().tasks(params, state, turn)
            return
        rows = {k: row for k in turn.bank.clients() if (row := turn.bank.read(k))}
        vectors = {client: _vector(row) for client, row in rows.items()}
        for client in sorted(self.participants(state, turn)):
            head = self._teacher(client, rows, vectors, turn) or state["initial-head"]
            yield Task(client, {"encoder": params, "head": head})

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        found = dict(super().expects(params, state, turn))
        head = {"head": specs_of(state["initial-head"])}
        return found | head if self._first(turn) else found

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        def kept() -> Iterator[Update]:
            for update in updates:
                if self._first(turn):
                    turn.bank.write(
                        update.client,
                        {"head": update.sent["head"]},
                        num_examples=update.num_examples,
                        round=turn.round,
                    )
                yield update

        return super().update(params, state, kept(), turn)

    def _first(self, turn: Turn) -> bool:
        return turn.round <= self._last(turn)

    def _last(self, turn: Turn) -> int:
        return self.first_stage or turn.rounds // 2

    def _teacher(
        self,
        client: int,
        rows: Mapping[int, Row],
        vectors: Mapping[int, Floats],
        turn: Turn,
    ) -> Params | None:
        """Return the mixture of the client's head and those of its collaborators."""
        if client not in rows:
            return None
        peers = [peer for peer in rows if peer != client]
        chosen: list[int] = []
        found = np.zeros(0)
        if peers:
            everyone = np.stack([vectors[peer] for peer in peers])
            found = distances(vectors[client], everyone)
            near_ = collaborators(found, round=turn.round, last=self._last(turn))
            chosen, found = [peers[i] for i in near_], found[near_]
        team = [*chosen, client]
        weights = shares(
            np.append(found, 0.0),
            np.array([float(rows[one].num_examples) for one in team]),
            similarity=self.similarity,
        )
        heads = [rows[one].part("head") for one in team]
        return weighted_mean(heads, weights.tolist())


def _vector(row: Row) -> Floats:
    return row.part("head")["weight"].double().numpy().ravel()
