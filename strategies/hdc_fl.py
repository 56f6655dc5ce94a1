"""HDC-FL, server side: soft mixtures of group encoders, grouped by head geometry.

No public paper page or code exists; the order of operations follows the specification,
section 23. Training is FedPer's and never sees a personal encoder: those are formed
for evaluation and deployment only. The server sees the clients' heads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from logging import INFO, getLogger
from typing import Annotated, Literal

from pydantic import Field

from fedapp.algorithm import Update
from fedapp.hdc.bank_rows import bank_heads
from fedapp.hdc.mixture import from_second_moments, to_second_moments
from fedapp.hdc.personal import mixtures
from fedapp.hdc.refresh import MIN_CLIENTS, Refresh, refresh
from fedapp.hdc.refresh_state import (
    gate_of,
    gate_tensors,
    groups_of,
    snapshot_of,
    state_of_refresh,
)
from fedapp.hdc.stability import Gate, Thresholds, agreement
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Task, Turn, specs_of

log = getLogger("flwr")


@dataclass(kw_only=True)
class HdcFl(RoundStrategy):
    """FedPer, a bank of (encoder, head) per client, groups, personal encoders."""

    refresh_every: Annotated[
        int, Field(ge=1, description="rounds between refreshes; the last round has one")
    ]
    energy: Annotated[
        float, Field(gt=0, le=1, description="share of head energy the subspace keeps")
    ]
    rank: Annotated[int, Field(ge=0, description="fixed subspace rank; 0: by energy")]
    max_groups: Annotated[int, Field(ge=1, description="largest group count tried")]
    min_silhouette: Annotated[
        float, Field(ge=-1, le=1, description="below it all clients form one group")
    ]
    min_ari: Annotated[
        float, Field(ge=-1, le=1, description="agreement with the refresh before")
    ]
    max_change: Annotated[
        float, Field(ge=0, description="change of head similarities allowed")
    ]
    stable_refreshes: Annotated[
        int, Field(ge=1, description="stable refreshes in a row that activate")
    ]
    min_head_change: Annotated[
        float,
        Field(ge=0, description="median move of heads from their start, relative"),
    ]
    activation: Annotated[
        Literal["stable", "always"],
        Field(description="when personal encoders are used"),
    ]
    force_final: Annotated[
        bool, Field(description="use them in the last round in any case")
    ]
    latch: Annotated[bool, Field(description="once active, stay active")]
    temperature: Annotated[
        float, Field(gt=0, description="soft-max temperature of memberships")
    ]
    mix: Annotated[
        float, Field(ge=0, le=1, description="1: group mixture, 0: own encoder")
    ]
    max_age: Annotated[
        int,
        Field(ge=0, description="rounds until an entry leaves prototypes; 0: never"),
    ]
    bn_variance: Annotated[
        Literal["linear", "total"],
        Field(
            description="mix BatchNorm variances linearly, or as a mixture's variance"
        ),
    ]
    bank_precision: Annotated[
        Literal["float32", "float16"],
        Field(description="float16: encoders and heads in half the room on disk"),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        return select(initial, "encoder"), {"initial-head": select(initial, "head")}

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return {"encoder": params}

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        return {"encoder": specs_of(params), "head": specs_of(state["initial-head"])}

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        mean = WeightedMean()
        for update in updates:
            turn.bank.write(
                update.client,
                update.sent,
                num_examples=update.num_examples,
                round=turn.round,
                precision=self.bank_precision,
            )
            mean.add(update.sent["encoder"], update.num_examples)
        if turn.round % self.refresh_every == 0 or turn.last:
            state = self._refresh(state, turn)
        return mean.value(), state

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield each client's mixture, formed one at a time from the bank as it is."""
        groups = groups_of(state)
        if groups is None or not self._active(state, turn):
            for client in clients:
                yield Task(client, {"encoder": params}, {"personalised": False})
            return
        found = mixtures(
            turn.bank,
            groups,
            mix=self.mix,
            since=turn.round - self.max_age if self.max_age else 0,
            convert=self._to_mix,
        )
        for client in clients:
            mixed = found.encoder(client)
            if mixed is None:
                yield Task(client, {"encoder": params}, {"personalised": False})
                continue
            encoder = self._from_mix(mixed, params)
            yield Task(client, {"encoder": encoder}, {"personalised": True})

    def _active(self, state: State, turn: Turn) -> bool:
        if self.activation == "always" or (self.force_final and turn.last):
            return True
        return gate_of(state).active

    def _to_mix(self, encoder: Params) -> Params:
        return to_second_moments(encoder) if self.bn_variance == "total" else encoder

    def _from_mix(self, mixed: Params, like: Params) -> Params:
        if self.bn_variance == "total":
            return from_second_moments(mixed, like)
        return mixed

    def _refresh(self, state: State, turn: Turn) -> State:
        heads = bank_heads(turn.bank)
        if len(heads) < MIN_CLIENTS:
            log.log(
                INFO,
                "[round %s] no groups: %s clients have sent a head, grouping takes %s; "
                "all are given the shared encoder",
                turn.round,
                len(heads),
                MIN_CLIENTS,
            )
            return {**state, "gate": gate_tensors(Gate(active=gate_of(state).active))}
        groups = groups_of(state)
        previous = groups.lasting() if groups is not None else {}
        found = refresh(
            heads,
            state["initial-head"]["weight"].numpy(),
            before=snapshot_of(state),
            previous=previous,
            next_id=int(state["groups"]["next-id"]) if groups is not None else 0,
            gate=gate_of(state),
            energy=self.energy,
            rank=self.rank,
            max_groups=self.max_groups,
            temperature=self.temperature,
            thresholds=Thresholds(
                min_silhouette=self.min_silhouette,
                min_ari=self.min_ari,
                max_change=self.max_change,
                min_head_change=self.min_head_change,
                stable_refreshes=self.stable_refreshes,
                latch=self.latch,
            ),
            seed=turn.seed,
        )
        after = {**state, **state_of_refresh(found)}
        self._log(found, self._active(after, turn), turn)
        return after

    def _log(self, found: Refresh, active: bool, turn: Turn) -> None:
        lasting = found.groups.lasting()
        latent = [turn.groups[client] for client in lasting] if turn.groups else []
        ari = agreement(latent, list(lasting.values())) if latent else ""
        turn.log(
            "hdc-fl/refreshes.csv",
            {
                "round": turn.round,
                "groups": len(found.groups.ids),
                "rank": found.subspace.rank,
                "energy": found.subspace.energy,
                "silhouette": _or_blank(found.silhouette),
                "ari_previous": _or_blank(found.ari),
                "descriptor_change": _or_blank(found.change),
                "stable": found.gate.counter > 0,
                "active": active,
                "ari_latent": ari,
                "head_change": found.head_change,
                "spectral_gap": found.subspace.gap,
                "method": found.method,
            },
        )
        log.log(INFO, "[round %s] %s", turn.round, found.in_words())
        shown = found.listed()
        for client, weights in zip(
            found.groups.clients, found.groups.weights, strict=True
        ):
            if client not in shown:
                continue
            for group, weight in zip(found.groups.ids, weights, strict=True):
                turn.log(
                    "hdc-fl/memberships.csv",
                    {
                        "round": turn.round,
                        "client": client,
                        "group": group,
                        "membership": float(weight),
                        "assigned": lasting.get(client) == group,
                    },
                )


def _or_blank(value: float | None) -> float | str:
    return "" if value is None else value
