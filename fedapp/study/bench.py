"""A committed round laid out for study: cache, private heads, data and model."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedapp.algorithm import LocalAlgorithm, Memory, Scalars, score_all
from fedapp.bank import Bank
from fedapp.checkpoint import Commit
from fedapp.config import Settings, build
from fedapp.data.manifest import Manifest
from fedapp.hdc.refresh import Groups
from fedapp.hdc.stability import Snapshot
from fedapp.ledger import EVALUATE, Ledger, Score
from fedapp.memory import FolderMemory, Who
from fedapp.params import Payload
from fedapp.study.place import (
    Place,
)
from fedapp.turn import State, Turn
from fedapp.workplace import build_task
from strategies.hdc_fl import HdcFl


@dataclass(frozen=True)
class Bench:
    """What a process needs to score encoders on clients of a run; nothing is written.

    ``groups`` and ``snapshot`` are those of the last refresh.
    """

    place: Place
    settings: Settings
    manifest: Manifest
    commit: Commit
    bank: Bank
    groups: Groups
    snapshot: Snapshot
    algorithm: LocalAlgorithm
    cfg: Scalars

    @property
    def state(self) -> State:
        """What the server kept."""
        return self.commit.state

    @property
    def clients(self) -> range:
        """All clients, unseen ones included."""
        return range(len(self.manifest.clients))

    @property
    def unseen_from(self) -> int:
        """The first client that never trains by the settings."""
        return len(self.clients) - self.settings.data.unseen_clients

    def rule(self, **changes: Any) -> HdcFl:
        """Return the server half of the method; ``changes`` replace settings."""
        return build(HdcFl, {**self.settings.table, **changes})

    def turn(self) -> Turn:
        """Return the evaluation of the committed round, as the method saw it."""
        return Turn(
            round=self.commit.round,
            rounds=self.settings.rounds.count,
            phase=EVALUATE,
            step=0,
            num_clients=len(self.clients),
            sampled=(),
            seed=self.settings.seed,
            bank=self.bank,
            last_trained=self.last_trained,
            groups=[plan.group for plan in self.manifest.clients],
        )

    @property
    def last_trained(self) -> dict[int, int]:
        """The last round in which each client that ever trained did."""
        found = self.commit.books["last_trained"]
        return {int(client): int(round_) for client, round_ in found.items()}

    def memory(self, client: int) -> Memory:
        """Return what a client kept to itself as of the commit: its head."""
        held = self.commit.held.get(client, (0, 0))
        store = FolderMemory(self.place.path / "memory", client)
        return store.load((held[0], held[1] + 1))

    def score(self, client: int, received: Payload, *, name: str) -> Score:
        """Score what the method makes of ``received`` on a client's test samples.

        The client does what it does when the server asks for an evaluation.
        """
        task, test = build_task(
            self.settings,
            Who(str(client), simulated=True),
            {},
            received,
            {**self.cfg, "client": client},
            {},
        )
        found = score_all(self.algorithm, task, self.memory(client), test)
        _, correct, loss = found[0]
        total = len(test)
        return Score(client, name, total, loss / total, correct / total)

    def accuracy(self, scores: list[Score]) -> dict[str, float]:
        """Return accuracies over clients by the rules of a run's summary."""
        ledger = Ledger(unseen_from=self.unseen_from, last_trained=self.last_trained)
        ledger.scores = scores
        return ledger.accuracy()

    def generator(self, *key: int) -> np.random.Generator:
        """Return a generator seeded by the run's seed, the round and ``key``."""
        return np.random.default_rng([self.settings.seed, self.commit.round, *key])
