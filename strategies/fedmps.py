"""FedMPS, server side (Yang et al. 2025, doi 10.1109/TNNLS.2025.3611832)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fedapp.algorithm import Update, seeded
from fedapp.models import load, state_of
from fedapp.params import Params, Payload, select
from fedapp.prototype_log import angles, drift
from fedapp.prototype_parts import check_classes, specs, to_parts
from fedapp.prototypes import Bank, PrototypeMean, class_means, class_sums
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Turn

HIGH, LOW, SOFT = "protos-high", "protos-low", "soft"
SERVER = 0x6D7073
"""Keeps the order of the server's samples apart from others of the same seed."""


@dataclass(kw_only=True)
class FedMPS(RoundStrategy):
    """Prototypes of two layers are averaged; a small head turns them to soft labels.

    The head persists, begins as the clients' heads do, and is trained on the high
    prototypes of each round in an order that depends on (seed, round) alone.
    """

    server_epochs: Annotated[
        int, Field(ge=0, description="passes of the server's head over prototypes")
    ]
    server_lr: Annotated[float, Field(gt=0, description="its Adam rate")]
    server_batch_size: Annotated[int, Field(ge=1, description="its batch size")]

    def init(self, initial: Params) -> tuple[Params, State]:
        classes, width = initial["head.weight"].shape
        return {}, {
            HIGH: Bank.empty(classes, width).state,
            # How wide the low layer is only its clients know.
            LOW: Bank.empty(classes, 0).state,
            SOFT: Bank.empty(classes, classes).state,
            "server-head": select(initial, "head"),
        }

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        parts: dict[str, Params] = {}
        for name in (LOW, SOFT, HIGH):
            parts |= to_parts(Bank.of_state(state[name]), name=name)
        return parts

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        low = state[LOW]["values"].shape[1] or None
        width = state[HIGH]["values"].shape[1]
        return {**specs(low, name=LOW), **specs(width, name=HIGH)}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        check_classes(update.sent, len(state[HIGH]["known"]), HIGH, LOW)

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        high, low = Bank.of_state(state[HIGH]), Bank.of_state(state[LOW])
        high_mean = PrototypeMean(high, "uniform")
        low_mean: PrototypeMean | None = None
        first, rows, labels = -1, list[Tensor](), list[Tensor]()
        for update in updates:
            classes = update.sent["classes"]["values"]
            values = update.sent[LOW]["values"]
            if low_mean is None:
                first, wide = update.client, values.shape[1]
                if low.values.shape[1] != wide:
                    low = Bank.empty(len(low.known), wide)
                low_mean = PrototypeMean(low, "uniform")
            if values.shape[1] != low.values.shape[1]:
                raise ValueError(
                    f"the early layers of clients {first} and {update.client} have "
                    f"{low.values.shape[1]} and {values.shape[1]} values: fedmps needs "
                    "the same model everywhere"
                )
            low_mean.add(values, classes, None)
            high_mean.add(update.sent[HIGH]["values"], classes, None)
            rows.append(update.sent[HIGH]["values"])
            labels.append(classes.long())
        assert low_mean is not None
        after = high_mean.merged(high)
        head, soft = self._soft_labels(
            state["server-head"], torch.cat(rows), torch.cat(labels), turn
        )
        before_soft = Bank.of_state(state[SOFT])
        kept = torch.where(soft.known[:, None], soft.values, before_soft.values)
        self._log(high, after, turn)
        return params, {
            HIGH: after.state,
            LOW: low_mean.merged(low).state,
            SOFT: Bank(kept, soft.known | before_soft.known).state,
            "server-head": head,
        }

    def _soft_labels(
        self, before: Params, rows: Tensor, labels: Tensor, turn: Turn
    ) -> tuple[Params, Bank]:
        """Return the head after this round, and its mean logits of each class."""
        head = nn.Linear(rows.shape[1], len(before["bias"]))
        load(head, before)
        adam = torch.optim.Adam(head.parameters(), lr=self.server_lr)
        generator = seeded(turn.seed, SERVER, turn.round)
        for _ in range(self.server_epochs):
            order = torch.randperm(len(rows), generator=generator)
            for index in order.split(self.server_batch_size):
                adam.zero_grad()
                functional.cross_entropy(head(rows[index]), labels[index]).backward()
                adam.step()
        with torch.no_grad():
            sums, counts = class_sums(head(rows), labels, len(before["bias"]))
        return state_of(head), class_means(sums, counts)

    def _log(self, before: Bank, after: Bank, turn: Turn) -> None:
        between, moved = angles(after), drift(before, after)
        turn.log(
            "fedmps/rounds.csv",
            {
                "round": turn.round,
                "known": int(after.known.sum()),
                "drift": "" if moved is None else moved,
                "angle_mean": "" if between is None else between[0],
                "angle_min": "" if between is None else between[1],
            },
        )
