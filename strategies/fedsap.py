"""FedSAP, server side (Casado-Diez et al. 2026, arXiv 2606.02172).

FedProto's protocol; the alignment grows on a schedule and the bank of prototypes serves
as proxies of a separation loss. The paper's code is not public: what its abstract
leaves open is our choice (docs/methods.md says which).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedapp.algorithm import Scalars, Update, seeded
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.prototype_log import Report, mean_metric
from fedapp.prototypes import Bank, PrototypeMean
from fedapp.proxies import initial_proxies
from fedapp.schedules import rounds_of
from fedapp.turn import Expected, Spec, State, Turn, specs_of
from strategies.fedproto import FedProto, add

NOTHING = -1.0
"""A threshold under which no pseudo-label is accepted."""


@dataclass(kw_only=True)
class FedSAP(FedProto):
    """FedProto with a weight that is always sent, and what its options need.

    ``label_fraction`` is the data setting: with all labels there is nothing to add.
    """

    momentum: Annotated[
        float, Field(ge=0, lt=1, description="share of the old prototype that stays")
    ]
    proxies: Annotated[
        Literal["bank", "learned", "private"],
        Field(description="proxies: global prototypes, or learned: averaged, or kept"),
    ]
    share_encoder: Annotated[
        bool, Field(description="average encoders too, as FedAvg; models are not sent")
    ]
    pseudo_labels: Annotated[
        Literal["auto", "none", "all", "fixed", "oracle"],
        Field(description="which unlabelled samples train, from the nearest prototype"),
    ]
    supervised: Annotated[
        float, Field(ge=0, le=1, description="share of the rounds before pseudo-labels")
    ]
    ramp: Annotated[
        int, Field(ge=0, description="rounds until pseudo-labels have full weight")
    ]
    label_fraction: float = 1.0

    table: ClassVar[str] = "fedsap"

    def init(self, initial: Params) -> tuple[Params, State]:
        _, state = super().init(initial)
        more: dict[str, Params] = {}
        if self.proxies == "learned":
            classes, width = initial["head.weight"].shape
            drawn = initial_proxies(classes, width, seeded(self.seed, PROXIES))
            more["proxies"] = {"values": drawn}
        encoder = select(initial, "encoder") if self.share_encoder else {}
        return encoder, {**state, **more}

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        more: dict[str, Params] = {}
        if self.proxies == "learned":
            more["proxies"] = state["proxies"]
        if self.share_encoder:
            more["encoder"] = params
        return {**super().broadcast(params, state, turn), **more}

    def scalars(self, state: State, turn: Turn) -> Scalars:
        sent = {"lam": self.lam_in(turn)}
        weight = self.pseudo_weight(turn)
        if weight is None:
            return sent
        known = state.get("threshold", {}).get("values")
        limit = NOTHING if known is None else float(known)
        return {**sent, "pseudo-weight": weight, "threshold": limit}

    def pseudo_weight(self, turn: Turn) -> float | None:
        """Return the weight of pseudo-labels; None in supervised rounds."""
        elapsed = turn.round - 1 - rounds_of(self.supervised, turn.rounds)
        if self.pseudo_labels == "none" or self.label_fraction == 1 or elapsed < 0:
            return None
        return min(1.0, elapsed / self.ramp) if self.ramp else 1.0

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        found = dict(super().expects(params, state, turn))
        if self.proxies == "learned":
            found["proxies"] = specs_of(state["proxies"])
            found["proxy-counts"] = {"values": Spec((len(state["proxies"]["values"]),))}
        if self.share_encoder:
            found["encoder"] = specs_of(params)
        return found

    def check(self, update: Update, state: State, turn: Turn) -> None:
        super().check(update, state, turn)
        if self.proxies == "learned":
            counts = update.sent["proxy-counts"]["values"]
            bad = (counts < 0).nonzero()
            if len(bad):
                where = int(bad[0])
                raise ValueError(
                    f"its proxy of class {where} has {counts[where].item():g} samples"
                )

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        before = Bank.of_state(state["prototypes"])
        mean, encoders = PrototypeMean(before, self.weighting), WeightedMean()
        proxies = PrototypeMean(before, "count")
        reports: list[Report] = []
        for update in updates:
            add(mean, update.sent)
            reports.append((update.metrics, update.num_examples))
            if self.share_encoder:
                encoders.add(update.sent["encoder"], update.num_examples)
            if self.proxies == "learned":
                counts = update.sent["proxy-counts"]["values"]
                values = update.sent["proxies"]["values"]
                proxies.add(values, torch.arange(len(counts)), counts)
        after = mean.merged(before, momentum=self.momentum)
        self.log(before, after, reports, turn)
        new = {**state, "prototypes": after.state}
        if self.proxies == "learned":
            new["proxies"] = {"values": proxies.merged(_all(state)).values}
        limit = mean_metric(reports, "threshold")
        if limit is not None:
            new["threshold"] = {"values": torch.tensor(limit)}
        if self.share_encoder:
            params = encoders.value()
        return params, new

    def log(self, before: Bank, after: Bank, reports: list[Report], turn: Turn) -> None:
        super().log(before, after, reports, turn)
        weight = self.pseudo_weight(turn)
        if weight is not None:
            turn.log("fedsap/pseudo_labels.csv", _pseudo_row(turn, weight, reports))


PROXIES = 0x70726F78
"""Keeps the draw of proxies apart from others of the same seed."""


def _all(state: State) -> Bank:
    values: Tensor = state["proxies"]["values"]
    return Bank(values, torch.ones(len(values), dtype=torch.bool))


def _pseudo_row(
    turn: Turn, weight: float, reports: list[Report]
) -> dict[str, int | float | str]:
    """Return one row: how many pseudo-labels were accepted, and how many were right."""

    def total(name: str) -> float:
        return sum(metrics.get(name, 0) for metrics, _ in reports)

    unlabelled, accepted = total("unlabelled"), total("accepted")
    known = any("accepted-right" in metrics for metrics, _ in reports)
    limit = mean_metric(reports, "threshold")
    return {
        "round": turn.round,
        "weight": weight,
        "unlabelled": int(unlabelled),
        "accepted": int(accepted),
        "accepted_share": accepted / unlabelled if unlabelled else "",
        "accepted_accuracy": total("accepted-right") / accepted
        if known and accepted
        else "",
        "threshold": "" if limit is None else limit,
    }
