"""A refresh from state to state: new groups, or a word why there are none."""

from collections.abc import Sequence
from logging import INFO, getLogger

from fedapp.hdc import diagnostics, newcomers
from fedapp.hdc.described import Described
from fedapp.hdc.grouping import NothingToGroup
from fedapp.hdc.raw import RawRefresh
from fedapp.hdc.refresh import MIN_CLIENTS, refresh
from fedapp.hdc.refresh_state import (
    RAW,
    gate_of,
    gate_tensors,
    groups_of,
    snapshot_of,
    state_of_refresh,
    without,
)
from fedapp.hdc.settings import HdcFlSettings
from fedapp.hdc.stability import Gate
from fedapp.turn import State, Turn

log = getLogger("flwr")


def is_active(rule: HdcFlSettings, state: State, turn: Turn) -> bool:
    """Return whether clients are given personal encoders in this round."""
    if rule.activation == "always" or (rule.force_final and turn.last):
        return True
    return gate_of(state).active


def regroup(
    rule: HdcFlSettings,
    state: State,
    clients: Sequence[int],
    seen: Described,
    raw: RawRefresh | None,
    turn: Turn,
) -> State:
    """Return the state with groups of ``clients``, and write down what led to them."""
    groups = groups_of(state)
    try:
        found = refresh(
            clients,
            seen,
            before=snapshot_of(state),
            previous=groups.lasting() if groups is not None else {},
            next_id=int(state["groups"]["next-id"]) if groups is not None else 0,
            gate=gate_of(state),
            max_groups=rule.max_groups,
            temperature=rule.temperature,
            thresholds=rule.thresholds,
            seed=turn.seed,
        )
    except NothingToGroup as error:
        return _no_groups(state, turn, str(error))
    after = {**without(state, RAW), **state_of_refresh(found, raw)}
    if rule.newcomer_epochs:
        after |= newcomers.landmarks_state(found)
    log.log(INFO, "[round %s] %s", turn.round, found.in_words())
    for table, line in diagnostics.tables(
        found,
        raw,
        active=is_active(rule, after, turn),
        latent=turn.groups,
        written=turn.bank.rounds,
        round=turn.round,
        max_age=rule.max_age,
    ):
        turn.log(table, line)
    return after


def too_few(state: State, turn: Turn) -> State:
    """Return the state after a refresh that there were too few clients for."""
    count = len(turn.bank.clients(fresh=True))
    why = f"{count} clients have sent a head, grouping takes {MIN_CLIENTS}"
    return _no_groups(state, turn, f"{why}; all are given the shared encoder")


def _no_groups(state: State, turn: Turn, why: str) -> State:
    log.log(INFO, "[round %s] no groups: %s", turn.round, why)
    return {**state, "gate": gate_tensors(Gate(active=gate_of(state).active))}
