"""The settings that say how a data set is dealt, checked, and the sizes they give."""

from dataclasses import dataclass

import numpy as np

from fedapp.data.quotas import Flags, Ints

N_WAY = "n-way-k-shot"
PARTITIONS = (
    "iid",
    "dirichlet",
    "label-subset",
    "label-proportions",
    N_WAY,
    "natural",
)
MIN_TRAIN = 10
MIN_TEST = 5


@dataclass(frozen=True)
class Rule:
    """How a pool is dealt.

    ``train`` and ``test`` are sizes, 0 for all there is; ``width`` is the number of
    classes per client, give or take ``spread`` under n-way-k-shot, where ``shots`` are
    the training samples of a class; ``free`` says that all clients are allowed all
    classes.
    """

    kind: str
    clients: int
    alpha: float
    width: int
    train: int
    test: int
    fraction: float
    allowed: Flags
    free: bool
    seed: int
    spread: int = 0
    shots: int = 1

    @property
    def shots_in_all(self) -> int:
        """Samples of a class under n-way-k-shot, tests included."""
        return round(self.shots / (1 - self.fraction))

    @property
    def ways(self) -> tuple[int, int]:
        """The fewest and the most classes of a client under n-way-k-shot: at least
        two, unless one is asked for."""
        fewest = max(min(2, self.width), self.width - self.spread)
        return fewest, min(self.allowed.shape[1], self.width + self.spread)


def check(rule: Rule, labels: Ints, official_test: Flags | None) -> None:
    """Refuse settings that make no sense or that this many samples cannot serve."""
    if rule.kind not in PARTITIONS:
        raise ValueError(
            f"data.partition = {rule.kind!r}; use one of {', '.join(PARTITIONS)}"
        )
    if rule.clients < 1 or rule.train < 0 or not 0 < rule.fraction < 1:
        raise ValueError(
            "need data.clients >= 1, data.samples-per-client >= 0 and 0 < "
            f"data.test-fraction < 1; got {rule.clients}, {rule.train} and "
            f"{rule.fraction}"
        )
    if not rule.alpha > 0:
        raise ValueError(f"data.alpha must be positive, not {rule.alpha}")
    if rule.kind == N_WAY:
        _check_shots(rule)
    if not rule.free and rule.kind in ("label-subset", N_WAY, "natural"):
        raise ValueError(
            f"data.shift = 'label-window' does not go with data.partition = "
            f"{rule.kind!r}, which decides itself who holds which class; use iid, "
            "label-proportions or dirichlet"
        )
    if rule.train and (rule.train < MIN_TRAIN or rule.test < MIN_TEST):
        raise ValueError(
            f"data.samples-per-client = {rule.train} with data.test-fraction = "
            f"{rule.fraction} makes {rule.train} training and {rule.test} test "
            f"samples; at least {MIN_TRAIN} and {MIN_TEST} are needed: raise one of "
            "the two settings, or use 0 samples per client for all there are"
        )
    train, test = rule.train or MIN_TRAIN, rule.test or MIN_TEST
    if official_test is None:
        _check_enough(rule, "", len(labels), train + test)
    else:
        count = int(official_test.sum())
        _check_enough(rule, "official training ", len(labels) - count, train)
        _check_enough(rule, "official test ", count, test)


def _check_shots(rule: Rule) -> None:
    if rule.train:
        raise ValueError(
            f"data.samples-per-client = {rule.train} does not go with data.partition = "
            f"{N_WAY!r}, where data.shots says how many a class; set it to 0"
        )
    fewest, _ = rule.ways
    train = fewest * rule.shots
    test = fewest * (rule.shots_in_all - rule.shots)
    if train < MIN_TRAIN or test < MIN_TEST:
        raise ValueError(
            f"data.shots = {rule.shots} with data.test-fraction = {rule.fraction} "
            f"makes {train} training and {test} test samples for a client of {fewest} "
            f"classes; {MIN_TRAIN} and {MIN_TEST} are needed: raise one of the two "
            "settings, or data.classes-per-client"
        )


def _check_enough(rule: Rule, what: str, there: int, each: int) -> None:
    if there < rule.clients * each:
        raise ValueError(
            f"data.clients = {rule.clients} need {rule.clients * each} {what}samples "
            f"({each} each); the data set has {there}: use fewer clients"
            + (", fewer samples per client" if rule.train else "")
            + " or more data"
        )


def shortfalls(rule: Rule, there: Ints, wanted: int, what: str) -> list[str]:
    """Return a note for each client that has fewer than ``wanted``."""
    return [
        f"client {client} has {count} {what}, fewer than the {wanted} that "
        f"data.samples-per-client = {rule.train} asks for"
        for client, count in enumerate(there)
        if count < wanted
    ]


def sizes_for_test(rule: Rule, quota: Ints) -> Ints:
    """Return how many samples of each client are for test.

    For the sum of ``train`` and ``test`` that is ``test``, as rounding it moved the sum
    by less than the fraction can tell; so it is for ``shots``, class by class.
    """
    sizes = quota.sum(axis=1)
    if rule.kind == N_WAY:
        kept = np.round((1 - rule.fraction) * quota).sum(axis=1)
        shares = sizes - kept.astype(np.int64)
    else:
        shares = np.round(rule.fraction * sizes).astype(np.int64)
    return np.clip(shares, MIN_TEST, sizes - MIN_TRAIN)
