"""HDC-FL, server side: soft mixtures of group encoders, grouped by head geometry.

No public paper page or code exists; the order of operations follows the specification,
section 23. Training is FedPer's and never sees a personal encoder: those are formed
for evaluation and deployment only. The server sees the clients' heads, or, with
``exchange = "sketch"``, their Gram matrices and sketches.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging import INFO, getLogger
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field

from fedapp.algorithm import Scalars, Update
from fedapp.bank import Row
from fedapp.hdc import diagnostics, newcomers
from fedapp.hdc.described import Described, from_heads
from fedapp.hdc.geometry import check_geometry, geometry_specs, summed_gram
from fedapp.hdc.heads import Array, Floats, Subspace, principal_directions
from fedapp.hdc.mixture import (
    from_second_moments,
    group_prototypes,
    group_weights,
    mix_encoders,
    to_second_moments,
)
from fedapp.hdc.refresh import MIN_CLIENTS, NothingToGroup, Refresh, refresh
from fedapp.hdc.refresh_state import (
    gate_of,
    gate_tensors,
    groups_of,
    snapshot_of,
    state_of_refresh,
)
from fedapp.hdc.sketch import (
    SKETCH,
    Exchange,
    SketchLength,
    direction_of,
)
from fedapp.hdc.stability import Gate, Thresholds, agreement, relative_change
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of

log = getLogger("flwr")

GRAM = "gram"
"""Part of the state between the two phases of a round with sketches."""

Sketches = Mapping[int, Array | None] | None
"""Unit vectors by client, None for one without a direction; None for no sketches."""


@dataclass(kw_only=True)
class HdcFl(RoundStrategy):
    """FedPer, a bank of (encoder, head) per client, groups, personal encoders.

    With ``exchange`` sketch the bank has (encoder, geometry), and rounds with a refresh
    have a second phase: all clients with a row get the common directions and answer
    with a sketch. One that does not is in no group until the next refresh.
    """

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
    exchange: Exchange
    sketch_length: SketchLength
    newcomer_epochs: Annotated[
        int,
        Field(ge=0, description="head-only epochs that place a newcomer; 0: none do"),
    ]
    newcomer_alone_epochs: Annotated[
        int,
        Field(
            ge=0,
            description="at the end newcomers also train alone, to compare; 0: none do",
        ),
    ]

    @classmethod
    def conflicts(cls, table: Mapping[str, object]) -> list[str]:
        found = []
        if table["exchange"] == "heads" and table["epsilon"]:
            found.append(
                f"hdc-fl.epsilon = {table['epsilon']}: heads are sent as they are; "
                "noise needs hdc-fl.exchange = 'sketch'"
            )
        if table["exchange"] == "sketch" and table["newcomer_epochs"]:
            found.append(
                f"hdc-fl.newcomer-epochs = {table['newcomer_epochs']}: a newcomer is "
                "placed by the head that it sends, and with hdc-fl.exchange = 'sketch' "
                "heads stay with their clients"
            )
        if table["newcomer_alone_epochs"] and not table["newcomer_epochs"]:
            found.append(
                f"hdc-fl.newcomer-alone-epochs = {table['newcomer_alone_epochs']}: "
                "there are newcomers to compare only if hdc-fl.newcomer-epochs is "
                "positive"
            )
        return found

    def init(self, initial: Params) -> tuple[Params, State]:
        return select(initial, "encoder"), {"initial-head": select(initial, "head")}

    def phases(self, turn: Turn) -> Sequence[str]:
        asks = self.exchange == "sketch" and self._due(turn)
        evaluates = turn.round % self.evaluate_every == 0 or turn.last
        some = len(turn.bank.clients()) < turn.num_clients
        late = self.newcomer_epochs > 0 and evaluates and some
        return ("train", *[SKETCH] * asks, *[newcomers.PHASE] * late)

    def trains(self, turn: Turn) -> bool:
        return turn.phase == "train"

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if turn.phase == "train":
            return turn.sampled
        known = turn.bank.clients(fresh=True)
        if turn.phase == SKETCH:
            return known if len(known) >= MIN_CLIENTS else ()
        return sorted(set(range(turn.num_clients)) - set(known))

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        if turn.phase == SKETCH:
            directions = torch.from_numpy(self._subspace(state).directions)
            return {"directions": {"weight": directions.float()}}
        return {"encoder": params}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        epochs: Scalars = {}
        if turn.phase == newcomers.PHASE:
            alone = self.newcomer_alone_epochs if turn.last else 0
            epochs = {"epochs": self.newcomer_epochs, "alone-epochs": alone}
        for task in super().tasks(params, state, turn):
            yield task._replace(scalars=epochs)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase == SKETCH:
            return {"sketch": {"numbers": Spec((self.sketch_length,))}}
        head = specs_of(state["initial-head"])
        if turn.phase == newcomers.PHASE:
            return {"head": head}
        if self.exchange == "sketch":
            geometry = geometry_specs(len(state["initial-head"]["weight"]))
            return {"encoder": specs_of(params), "geometry": geometry}
        return {"encoder": specs_of(params), "head": head}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        if "geometry" in update.sent:
            check_geometry(update.sent["geometry"])

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase == SKETCH:
            found = {u.client: direction_of(sketch_in(u)) for u in updates}
            return params, self._refresh(state, turn, found)
        if turn.phase == newcomers.PHASE:
            return params, self._place(state, updates, turn)
        state = newcomers.without_places(state)
        mean = WeightedMean()
        for update in updates:
            turn.bank.write(
                update.client,
                update.sent,
                num_examples=update.num_examples,
                round=turn.round,
            )
            mean.add(update.sent["encoder"], update.num_examples)
        if self._due(turn):
            sketches = self.exchange == "sketch"
            state = (
                self._summed(state, turn) if sketches else self._refresh(state, turn)
            )
        return mean.value(), state

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield each client's mixture, formed one at a time from the bank as it is."""
        groups = groups_of(state)
        if groups is None or not self._active(state, turn):
            yield from _shared(params, clients)
            return
        rows = [row(turn, client) for client in groups.clients]
        counts = np.array([r.num_examples if self._fresh(r, turn) else 0 for r in rows])
        if not counts[groups.labels >= 0].any():
            log.log(
                INFO,
                "[round %s] every entry in a group is older than hdc-fl.max-age = %s "
                "rounds; all are given the shared encoder",
                turn.round,
                self.max_age,
            )
            yield from _shared(params, clients)
            return
        trees = (
            (int(label), float(count), self._to_mix(r.part("encoder")))
            for r, label, count in zip(rows, groups.labels, counts, strict=True)
        )
        prototypes = group_prototypes(trees, len(groups.ids))
        soft = dict(zip(groups.clients, groups.weights, strict=True))
        soft |= self._late(state, turn, soft)
        found = group_weights(np.stack(list(soft.values())), groups.labels, counts)
        weights = dict(zip(soft, found, strict=True))
        entries = dict(zip(groups.clients, rows, strict=True))
        for client in clients:
            if client not in weights:
                yield from _shared(params, [client])
                continue
            entry = entries.get(client) or turn.bank.read(client, fresh=True)
            own = self._to_mix(entry.part("encoder") if entry is not None else params)
            mixed = mix_encoders(prototypes, weights[client], own, mix=self.mix)
            encoder = self._from_mix(mixed, params)
            yield Task(client, {"encoder": encoder}, {"personalised": True})

    def _due(self, turn: Turn) -> bool:
        return turn.round % self.refresh_every == 0 or turn.last

    def _late(
        self, state: State, turn: Turn, grouped: Container[int]
    ) -> dict[int, Array]:
        """Return the memberships of clients that were not at the last refresh."""
        marks = newcomers.landmarks_of(state)
        if marks is None:
            return {}
        since = [k for k in turn.bank.clients(fresh=True) if k not in grouped]
        heads = ((k, row(turn, k).part("head")["weight"].numpy()) for k in since)
        placed = newcomers.place(heads, marks, temperature=self.temperature)
        return newcomers.weights_of(state) | {k: p.weights for k, p in placed.items()}

    def _place(self, state: State, updates: Iterable[Update], turn: Turn) -> State:
        """Return ``state`` with the memberships of those who fitted a head."""
        marks, groups = newcomers.landmarks_of(state), groups_of(state)
        if marks is None or groups is None:
            return state
        heads = ((u.client, u.sent["head"]["weight"].numpy()) for u in updates)
        places = newcomers.place(heads, marks, temperature=self.temperature)
        for line in newcomers.lines(places, groups.ids):
            turn.log("hdc-fl/newcomers.csv", {"round": turn.round, **line})
        return {**state, **newcomers.places_state(places)}

    def _active(self, state: State, turn: Turn) -> bool:
        if self.activation == "always" or (self.force_final and turn.last):
            return True
        return gate_of(state).active

    def _fresh(self, row: Row, turn: Turn) -> bool:
        return self.max_age == 0 or turn.round - row.round <= self.max_age

    def _to_mix(self, encoder: Params) -> Params:
        return to_second_moments(encoder) if self.bn_variance == "total" else encoder

    def _from_mix(self, mixed: Params, like: Params) -> Params:
        if self.bn_variance == "total":
            return from_second_moments(mixed, like)
        return mixed

    def _summed(self, state: State, turn: Turn) -> State:
        """Return the state with the sum of Gram matrices, from which U follows."""

        def gram_of(client: int) -> Floats:
            return row(turn, client).part("geometry")["gram"].numpy()

        total = summed_gram(turn.bank.clients(fresh=True), gram_of)
        return {**state, GRAM: {"sum": torch.from_numpy(total)}}

    def _subspace(self, state: State) -> Subspace:
        total = state[GRAM]["sum"].numpy()
        return principal_directions(total, energy=self.energy, rank=self.rank)

    def _described(
        self, state: State, turn: Turn, clients: Sequence[int], sketches: Sketches
    ) -> Described:
        initial = state["initial-head"]["weight"].numpy()
        if sketches is None:
            return from_heads(
                clients,
                lambda client: row(turn, client).part("head")["weight"].numpy(),
                initial,
                energy=self.energy,
                rank=self.rank,
            )
        moves = [float(row(turn, c).part("geometry")["moved"]) for c in clients]
        change = relative_change(moves, initial)
        return Described(self._subspace(state), sketches, change)

    def _refresh(self, state: State, turn: Turn, sketches: Sketches = None) -> State:
        clients = turn.bank.clients(fresh=True)
        without = {part: tree for part, tree in state.items() if part != GRAM}
        if len(clients) < MIN_CLIENTS:
            return self._no_groups(
                without,
                turn,
                f"{len(clients)} clients have sent a head, grouping takes "
                f"{MIN_CLIENTS}; all are given the shared encoder",
            )
        groups = groups_of(state)
        previous = groups.lasting() if groups is not None else {}
        try:
            found = refresh(
                clients,
                self._described(state, turn, clients, sketches),
                before=snapshot_of(state),
                previous=previous,
                next_id=int(state["groups"]["next-id"]) if groups is not None else 0,
                gate=gate_of(state),
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
        except NothingToGroup as error:
            return self._no_groups(without, turn, str(error))
        after = {**without, **state_of_refresh(found)}
        if self.newcomer_epochs:
            after |= newcomers.landmarks_state(found)
        self._log(found, self._active(after, turn), turn)
        self._diagnose(found, turn)
        return after

    def _no_groups(self, state: State, turn: Turn, why: str) -> State:
        log.log(INFO, "[round %s] no groups: %s", turn.round, why)
        return {**state, "gate": gate_tensors(Gate(active=gate_of(state).active))}

    def _diagnose(self, found: Refresh, turn: Turn) -> None:
        rounds = turn.bank.rounds
        written = {client: rounds[client] for client in found.groups.clients}
        ages = diagnostics.ages(written, round=turn.round, max_age=self.max_age)
        for table, lines in (
            ("silhouettes", diagnostics.silhouettes(found)),
            ("spectrum", diagnostics.spectrum(found)),
            ("ages", ages),
        ):
            for line in lines:
                turn.log(f"hdc-fl/{table}.csv", {"round": turn.round, **line})

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
            },
        )
        for client, weights in zip(
            found.groups.clients, found.groups.weights, strict=True
        ):
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


def sketch_in(update: Update) -> Floats:
    """Return the numbers of a reply in the sketch phase."""
    return update.sent["sketch"]["numbers"].numpy()


def row(turn: Turn, client: int) -> Row:
    """Return the newest bank row of a client that has one."""
    found = turn.bank.read(client, fresh=True)
    assert found is not None
    return found


def _shared(params: Params, clients: Iterable[int]) -> Iterator[Task]:
    for client in clients:
        yield Task(client, {"encoder": params}, {"personalised": False})


def _or_blank(value: float | None) -> float | str:
    return "" if value is None else value
