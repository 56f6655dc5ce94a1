"""HDC-FL, server side: soft mixtures of group encoders, grouped by head geometry.

No public paper page or code exists; the order of operations follows the specification,
section 23. Training is FedPer's and never sees a personal encoder: those are formed
for evaluation and deployment only. The server sees the clients' heads, or, with
``exchange = "sketch"``, their Gram matrices and sketches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging import INFO, getLogger

import torch

from fedapp.algorithm import Scalars, Update
from fedapp.hdc import newcomers, sketch_phase
from fedapp.hdc.bank_rows import bank_heads
from fedapp.hdc.described import from_heads
from fedapp.hdc.geometry import check_geometry, geometry_specs
from fedapp.hdc.heads import Subspace
from fedapp.hdc.personal import mixtures
from fedapp.hdc.raw import raw_refresh
from fedapp.hdc.refresh import MIN_CLIENTS
from fedapp.hdc.refresh_state import RAW, groups_of, snapshot_of, without
from fedapp.hdc.regroup import is_active, regroup, too_few
from fedapp.hdc.settings import HdcFlSettings, conflicts
from fedapp.hdc.sketch import SKETCH
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of

log = getLogger("flwr")


@dataclass(kw_only=True)
class HdcFl(HdcFlSettings, RoundStrategy):
    """FedPer, a bank of (encoder, head) per client, groups, personal encoders.

    With ``exchange`` sketch the bank has (encoder, geometry), and rounds with a refresh
    have a second phase: all clients with a row get the common directions and answer
    with a sketch. One that does not is in no group until the next refresh. With
    ``newcomer_epochs`` rounds that evaluate end with a phase in which clients that
    never trained send a fitted head.
    """

    @classmethod
    def conflicts(cls, table: Mapping[str, object]) -> list[str]:
        return list(conflicts(table))

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
        # Who trained has a head to lose, even if its row of the bank was lost.
        return sorted({*range(turn.num_clients)} - {*known, *turn.last_trained})

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
            return params, self._sketched(state, updates, turn)
        if turn.phase == newcomers.PHASE:
            return params, self._place(state, updates, turn)
        state = without(state, newcomers.PHASE)
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
        if self._due(turn):
            state = self._after_training(state, turn)
        return mean.value(), state

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield each client's mixture, formed one at a time from the bank as it is."""
        found, groups = None, groups_of(state)
        if groups is not None and is_active(self, state, turn):
            members = set(groups.clients)
            found = mixtures(
                turn.bank,
                groups,
                newcomers.late(turn.bank, state, members, temperature=self.temperature),
                params,
                mix=self.mix,
                since=turn.round - self.max_age if self.max_age else 0,
                moments=self.bn_variance == "total",
            )
            if found is None:
                log.log(
                    INFO,
                    "[round %s] no entry in a group is whole and at most "
                    "hdc-fl.max-age = %s rounds old; all are given the shared encoder",
                    turn.round,
                    self.max_age,
                )
        for client in clients:
            mixed = found.encoder(client) if found is not None else None
            encoder = params if mixed is None else mixed
            yield Task(
                client, {"encoder": encoder}, {"personalised": mixed is not None}
            )

    def _due(self, turn: Turn) -> bool:
        return turn.round % self.refresh_every == 0 or turn.last

    def _subspace(self, state: State) -> Subspace:
        return sketch_phase.subspace_of(state, energy=self.energy, rank=self.rank)

    def _after_training(self, state: State, turn: Turn) -> State:
        """Return the state with new groups, or with what asking for sketches takes."""
        if self.exchange == "sketch":
            return {**state, **sketch_phase.summed(turn.bank)}
        heads = bank_heads(turn.bank)
        if len(heads) < MIN_CLIENTS:
            return too_few(state, turn)
        initial = state["initial-head"]["weight"].numpy()
        seen = from_heads(heads, initial, energy=self.energy, rank=self.rank)
        raw = raw_refresh(
            heads,
            before=snapshot_of(state, RAW),
            max_groups=self.max_groups,
            min_silhouette=self.min_silhouette,
            seed=turn.seed,
        )
        return regroup(self, state, heads.clients, seen, raw, turn)

    def _sketched(self, state: State, updates: Iterable[Update], turn: Turn) -> State:
        """Return the state with groups of the sketches that came."""
        sent = {u.client: u.sent["sketch"]["numbers"].numpy() for u in updates}
        kept = without(state, sketch_phase.GRAM)
        if len(turn.bank.clients(fresh=True)) < MIN_CLIENTS:
            return too_few(kept, turn)
        initial = state["initial-head"]["weight"].numpy()
        seen = sketch_phase.described(turn.bank, self._subspace(state), sent, initial)
        # Rows found damaged on the way are gone from the bank.
        clients = turn.bank.clients(fresh=True)
        return regroup(self, kept, clients, seen, None, turn)

    def _place(self, state: State, updates: Iterable[Update], turn: Turn) -> State:
        """Return ``state`` with the memberships of those who fitted a head."""
        marks, groups = newcomers.landmarks_of(state), groups_of(state)
        if marks is None or groups is None:
            return state
        heads = ((u.client, u.sent["head"]["weight"].numpy()) for u in updates)
        places = newcomers.place(heads, marks, temperature=self.temperature)
        for line in newcomers.lines(places, groups.ids, seed=turn.seed):
            turn.log("hdc-fl/newcomers.csv", {"round": turn.round, **line})
        return {**state, **newcomers.places_state(places)}
