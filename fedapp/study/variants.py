"""Paired re-evaluations of one cache under other memberships (specification 23.7).

Personal encoders never enter training, so a variant needs no run of its own: the same
bank, heads and test samples, only who is mixed with whom differs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fedapp.config import suggestion
from fedapp.hdc.newcomers import LANDMARKS, PHASE
from fedapp.hdc.refresh import Groups
from fedapp.hdc.refresh_state import RAW, groups_tensors, snapshot_of, without
from fedapp.hdc.variants import hard_groups, one_group, random_groups, soft_groups
from fedapp.ledger import Score
from fedapp.study.bench import Bench
from fedapp.study.place import StudyError
from fedapp.study.pool import cores, spread
from fedapp.turn import State
from strategies.hdc_fl import HdcFl

SOFT = "soft"
SHARED, OWN, POPULATION, HARD, RAW_HEADS, RANDOM = (
    "shared",
    "own",
    "population",
    "hard",
    "raw",
    "random-groups",
)
ABOUT = {
    SHARED: "the shared encoder, as FedPer",
    OWN: "own cached encoder",
    POPULATION: "one prototype for all",
    HARD: "nearest group's prototype",
    SOFT: "mixture by memberships",
    RAW_HEADS: "groups and memberships by raw heads",
    RANDOM: "as soft, who is in which group drawn",
}
"""The variants that every study has, in the order of tables."""

MIX, TEMPERATURE = "mix", "temperature"
DRAW = 1
"""Tells the generator of random groups from those of other studies."""


MIXES = (0.25, 0.5, 0.75)
TEMPERATURES = (0.01, 0.03, 0.3, 1.0)
"""Tried where nothing else is asked for; ``own`` is mix 0, ``soft`` the run's own."""


@dataclass(frozen=True)
class Variant:
    """One variant by kind; sweeps have a value."""

    kind: str
    value: float | None = None

    @property
    def name(self) -> str:
        """Its name in files and tables."""
        return self.kind if self.value is None else f"{self.kind}={self.value:g}"


@dataclass(frozen=True)
class ClientScore:
    """A client's score under a variant, its group there (None: in none), and whether
    the encoder was a personal one."""

    score: Score
    group: int | None
    personal: bool


Scores = dict[str, list[ClientScore]]
"""By the name of the variant, clients ascending."""


def variant_named(name: str) -> Variant:
    """Return the variant of a name, such as ``own`` or ``mix=0.5``.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    kind, equals, text = name.partition("=")
    if not equals and kind in ABOUT:
        return Variant(kind)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    fits = {MIX: 0 <= value <= 1, TEMPERATURE: 0 < value < inf}
    if fits.get(kind) and Variant(kind, value).name == name:
        return Variant(kind, value)
    hint = suggestion(name, ABOUT)
    raise ValueError(
        f"there is no variant {name!r}; use one of {', '.join(ABOUT)}, mix=0.5 or "
        f"temperature=0.3{hint}"
    )


def sweeps(
    bench: Bench, mixes: Sequence[float] | None, temperatures: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    """Return the values to try: those asked for, each once, or else a few of each.

    Raises
    ------
    StudyError
        If a temperature is not positive.
    """
    if not mixes and not temperatures:
        rule = bench.rule()
        mixes = [value for value in MIXES if value != rule.mix]
        temperatures = [value for value in TEMPERATURES if value != rule.temperature]
    for value in temperatures or ():
        if not value > 0:
            raise StudyError(f"a temperature must be positive; got {value:g}")
    return list(dict.fromkeys(mixes or ())), list(dict.fromkeys(temperatures or ()))


def variants_of(
    bench: Bench, *, mixes: Sequence[float], temperatures: Sequence[float]
) -> list[Variant]:
    """Return the variants that the bench allows, then the sweeps."""
    kinds = [kind for kind in ABOUT if kind != RAW_HEADS or RAW in bench.state]
    return [
        *(Variant(kind) for kind in kinds),
        *(Variant(MIX, value) for value in mixes),
        *(Variant(TEMPERATURE, value) for value in temperatures),
    ]


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
