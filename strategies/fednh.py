"""FedNH, server side (Dai et al. 2023, arXiv 2212.02758)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from fedapp.algorithm import Update, seeded
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.prototype_log import angles
from fedapp.prototype_parts import COUNTS, check_classes, specs
from fedapp.prototypes import EPSILON, Bank, Weighting, unit
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Turn, specs_of

ORTHOGONAL = 0x6E68
"""Keeps the draw of prototypes apart from others of the same seed."""


def spread_out(classes: int, width: int, generator: torch.Generator) -> Tensor:
    """Return unit rows (C, d) that are as far apart as an orthogonal draw gives.

    With more classes than coordinates its columns are orthonormal, not its rows: the
    reference code then starts from rows of other lengths, which is not done here.
    """
    rows = torch.empty(classes, width)
    return unit(nn.init.orthogonal_(rows, generator=generator))


def next_prototypes(old: Tensor, sums: Tensor, *, rho: float) -> Tensor:
    """Return ``normalise(rho W + (1 - rho) normalise(sum_k n_kc mu_kc))``, by class.

    A class whose sum (C, d) is zero, and every class at ``rho`` = 1, keeps its bits.
    """
    fresh = sums.double()
    moving = fresh.norm(dim=1) > EPSILON
    moved = unit(rho * old.double() + (1 - rho) * unit(fresh))
    if rho == 1:
        return old
    return torch.where(moving[:, None], moved.to(old.dtype), old)


@dataclass(kw_only=True)
class FedNH(RoundStrategy):
    """Encoders and the scale are averaged; the head is a slow mean of class means.

    Departure from the authors' code, whose average of encoders is uniform: here it is
    by examples, unless ``weighting`` says otherwise.
    """

    rho: Annotated[
        float, Field(ge=0, le=1, description="share of the old prototype that stays")
    ]
    scale: Annotated[float, Field(gt=0, description="scale of logits at the start")]
    weighting: Annotated[
        Weighting, Field(description="encoders count by examples, or equally")
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        classes, width = initial["head.weight"].shape
        drawn = spread_out(classes, width, seeded(self.seed, ORTHOGONAL))
        state = {
            "protos": {"values": drawn},
            "scale": {"values": torch.tensor([self.scale])},
        }
        return select(initial, "encoder"), state

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return {"encoder": params, **state}

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        scale = specs_of(state["scale"])
        width = state["protos"]["values"].shape[1]
        return {"encoder": specs_of(params), "scale": scale, **specs(width), **COUNTS}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        classes = len(state["protos"]["values"])
        check_classes(update.sent, classes, "protos", "counts")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        encoders, scales = WeightedMean(), WeightedMean()
        old = state["protos"]["values"]
        sums = torch.zeros_like(old, dtype=torch.float64)
        for update in updates:
            weight = update.num_examples if self.weighting == "count" else 1
            encoders.add(update.sent["encoder"], weight)
            scales.add(update.sent["scale"], weight)
            index = update.sent["classes"]["values"].long()
            sums.index_add_(0, index, update.sent["protos"]["values"].double())
        new = next_prototypes(old, sums, rho=self.rho)
        turned = torch.rad2deg((unit(old) * unit(new)).sum(1).clamp(-1, 1).arccos())
        known = torch.ones(len(new), dtype=torch.bool)
        between = angles(Bank(new, known)) or ("", "")
        row = {
            "round": turn.round,
            "scale": float(scales.value()["values"]),
            "rotation_mean": float(turned.mean()),
            "angle_mean": between[0],
            "angle_min": between[1],
        }
        turn.log("fednh/rounds.csv", row)
        return encoders.value(), {"protos": {"values": new}, "scale": scales.value()}
