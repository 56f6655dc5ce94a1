"""Paired re-evaluations of one cache under other memberships (specification 23.7).

Personal encoders never enter training, so a variant needs no run of its own: the same
bank, heads and test samples, only who is mixed with whom differs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.newcomers import LANDMARKS, PHASE
from fedapp.hdc.refresh import Groups
from fedapp.hdc.refresh_state import RAW, groups_tensors, snapshot_of, without
from fedapp.hdc.variants import hard_groups, one_group, random_groups, soft_groups
from fedapp.ledger import Score
from fedapp.study.bench import Bench
from fedapp.study.pool import cores, spread
from fedapp.study.variant import (
    HARD,
    MIX,
    OWN,
    POPULATION,
    RANDOM,
    RAW_HEADS,
    SHARED,
    SOFT,
    Variant,
)
from fedapp.turn import State
from strategies.hdc_fl import HdcFl

DRAW = 1
"""Tells the generator of random groups from those of other studies."""


@dataclass(frozen=True)
class ClientScore:
    """A client's score under a variant, its group there (None: in none), and whether
    the encoder was a personal one."""

    score: Score
    group: int | None
    personal: bool


Scores = dict[str, list[ClientScore]]
"""By the name of the variant, clients ascending."""


def evaluate(
    bench: Bench,
    variants: Sequence[Variant],
    *,
    processes: int | None,
    on_done: Callable[[int], None] = lambda count: None,
) -> Scores:
    """Score every client under every variant; ``on_done`` hears of scored clients."""
    parts = np.array_split(
        np.array(bench.clients), min(processes or cores(bench), len(bench.clients))
    )
    jobs = [(one, tuple(part.tolist())) for one in variants for part in parts]
    found: Scores = {one.name: [] for one in variants}
    for name, scores in spread(_score, jobs, bench, processes=processes):
        found[name] += scores
        on_done(len(scores))
    return found


def _score(
    bench: Bench, job: tuple[Variant, Sequence[int]]
) -> tuple[str, list[ClientScore]]:
    variant, clients = job
    rule, state = applied(bench, variant)
    return variant.name, list(_scores(bench, variant, rule, state, clients))


def _scores(
    bench: Bench, variant: Variant, rule: HdcFl, state: State, clients: Sequence[int]
) -> Iterator[ClientScore]:
    groups = _groups(state)
    for task in rule.personal(bench.commit.params, state, clients, bench.turn()):
        score = bench.score(task.client, task.payload, name=variant.name)
        personal = bool(task.scalars.get("personalised"))
        yield ClientScore(score, groups.get(task.client), personal)


def applied(bench: Bench, variant: Variant) -> tuple[HdcFl, State]:
    """Return the rule and the state that give clients the encoders of a variant."""
    kind, value = variant.kind, variant.value
    rule = bench.rule(activation="always")
    if kind == SHARED:
        return rule, without(bench.state, "groups")
    if kind == OWN:
        return bench.rule(activation="always", mix=0.0), bench.state
    if kind == MIX:
        return bench.rule(activation="always", mix=value), bench.state
    if kind == SOFT:
        return rule, bench.state
    groups = _regrouped(bench, kind, rule.temperature if value is None else value)
    # Newcomers were placed among the run's own groups, not among these.
    others = without(bench.state, LANDMARKS, PHASE)
    return rule, {**others, "groups": groups_tensors(groups, next_id=0)}


def _regrouped(bench: Bench, kind: str, temperature: float) -> Groups:
    clients, found = bench.groups.clients, bench.snapshot
    if kind == POPULATION:
        return one_group(bench.groups)
    if kind == RANDOM:
        return random_groups(bench.groups, bench.generator(DRAW))
    if kind == HARD:
        return hard_groups(clients, found)
    if kind == RAW_HEADS:
        raw = snapshot_of(bench.state, RAW)
        assert raw is not None
        return soft_groups(clients, raw, temperature=temperature)
    return soft_groups(clients, found, temperature=temperature)


def _groups(state: State) -> dict[int, int]:
    """Return the group of each client that is in one."""
    if "groups" not in state:
        return {}
    groups = state["groups"]
    pairs = zip(groups["clients"].tolist(), groups["labels"].tolist(), strict=True)
    return {client: label for client, label in pairs if label >= 0}
