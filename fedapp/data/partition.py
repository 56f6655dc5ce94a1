"""Divide a labelled data set among clients (section 24.1 and 24.2).

Pure functions of labels, settings and a seed. A quota of samples per class is drawn
for each client, brought to the minimum, split into a training and a test part class by
class, and then filled with random samples of the class.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedapp.data.dealing import deal
from fedapp.data.draws import draw, rows_by_owner
from fedapp.data.quotas import (
    Flags,
    Ints,
    fill_up,
    flags,
    follow,
    pair_up,
    share_for_test,
    thin,
)
from fedapp.data.rule import (
    MIN_TEST,
    MIN_TRAIN,
    Rule,
    check,
    shortfalls,
    sizes_for_test,
)


@dataclass(frozen=True)
class Partition:
    """Sorted sample indices of each client, its latent group, and what was adjusted.

    No sample is in two clients or in both parts. ``groups`` is for the caller, who
    knows the shift; ``notes`` are sentences for the manifest.
    """

    train: list[Ints]
    test: list[Ints]
    groups: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def partition(
    kind: str,
    labels: Ints,
    *,
    clients: int,
    alpha: float,
    classes_per_client: int,
    samples_per_client: int,
    test_fraction: float,
    owners: Ints | None,
    official_test: Flags | None,
    seed: int,
    ways_spread: int = 0,
    shots: int = 1,
    allowed: Sequence[set[int]] | None = None,
) -> Partition:
    """Return each client's training and test samples.

    Parameters
    ----------
    kind : one of ``PARTITIONS``
    labels : (N,) integers from 0
    clients : number of clients, K
    alpha : concentration for ``dirichlet`` and ``label-proportions``
    classes_per_client : for ``label-subset``; for ``n-way-k-shot`` the middle n
    ways_spread, shots : for ``n-way-k-shot`` (FedProto's): a client has from n - spread
        to n + spread classes, any number as likely, drawn at random, and of each
        ``shots`` training samples, or an equal share where they do not suffice
    samples_per_client : training samples of a client; 0 for all the partition gives
        With n given, a client also gets ``round(n f / (1 - f))`` test samples. Where
        the partition gives it less, it keeps what it has, and a note says so.
    test_fraction : share f of a client's samples that goes to its test part
    owners : natural client of each sample, negative for none; for ``natural``
    official_test : (N,) flags of the official test samples, or None
        If given, test samples come from these, training samples from the others, and
        ``test_fraction`` counts only together with ``samples_per_client``.
    seed : the same arguments give the same partition
    allowed : classes each client may hold, for ``label-window``; None for all

    Clients have at least 10 training and 5 test samples: a Dirichlet draw that fails
    is repeated up to 100 times, then samples of the one that needs the fewest move
    from the largest client. ``natural`` draws clients at random among the owners that
    have the minimum.
    """
    n, f = samples_per_client, test_fraction
    classes = int(labels.max()) + 1
    everything = [set(range(classes))] * clients
    present = [{c for c in own if c < classes} for own in allowed or everything]
    rule = Rule(
        kind=kind,
        clients=clients,
        alpha=alpha,
        width=classes_per_client,
        train=n,
        test=round(n * f / (1 - f)) if 0 < f < 1 else 0,
        fraction=f,
        allowed=flags(present, classes),
        free=allowed is None,
        seed=seed,
        spread=ways_spread,
        shots=shots,
    )
    check(rule, labels, official_test)
    rng = np.random.default_rng(seed)
    if kind == "natural":
        return _natural(rule, labels, owners, official_test, rng)
    if official_test is None:
        return _pooled(rule, labels, rng)
    return _official(rule, labels, official_test, rng)


def _pooled(rule: Rule, labels: Ints, rng: np.random.Generator) -> Partition:
    size, need = rule.train + rule.test, MIN_TRAIN + MIN_TEST
    quota, notes = draw(rule, labels, size, need, rng, shots=rule.shots_in_all)
    full = quota.sum(axis=1)
    if size:
        quota = thin(quota, np.full(rule.clients, size))
        notes += shortfalls(rule, full, size, "samples")
    quota = pair_up(quota)
    test = share_for_test(quota, sizes_for_test(rule, quota))
    parts = _serve(labels, np.arange(len(labels)), np.vstack([quota - test, test]), rng)
    return Partition(parts[: rule.clients], parts[rule.clients :], notes=notes)


def _official(
    rule: Rule, labels: Ints, official_test: Flags, rng: np.random.Generator
) -> Partition:
    train_pool, test_pool = (
        np.flatnonzero(~official_test),
        np.flatnonzero(official_test),
    )
    train, notes = draw(
        rule, labels[train_pool], rule.train, MIN_TRAIN, rng, shots=rule.shots
    )
    there = np.bincount(labels[test_pool], minlength=train.shape[1])
    if rule.train:
        notes += shortfalls(rule, train.sum(axis=1), rule.train, "training samples")
        train = thin(train, np.full(rule.clients, rule.train))
        sizes = np.full(rule.clients, rule.test)
        test = deal(train.astype(np.float64), sizes, there, all_classes=True)
        notes += shortfalls(rule, test.sum(axis=1), rule.test, "test samples")
    else:
        test = follow(train, there)
    test, moves = fill_up(test, MIN_TEST, train > 0)
    return Partition(
        _serve(labels, train_pool, train, rng),
        _serve(labels, test_pool, test, rng),
        notes=notes + moves,
    )


def _natural(
    rule: Rule,
    labels: Ints,
    owners: Ints | None,
    official_test: Flags | None,
    rng: np.random.Generator,
) -> Partition:
    if owners is None:
        raise ValueError(
            "data.partition = 'natural' needs to know whose each sample is: name the "
            "column in data.client-column, or use another partition"
        )
    of_test = np.zeros(len(labels), bool) if official_test is None else official_test
    able = [
        rows
        for rows in rows_by_owner(owners)
        if _has_minimum(of_test[rows], pooled=official_test is None)
    ]
    if len(able) < rule.clients:
        raise ValueError(
            f"data.clients = {rule.clients}, but only {len(able)} natural clients have "
            f"{MIN_TRAIN} training and {MIN_TEST} test samples; use fewer clients"
            + ("" if official_test is None else " or data.official-split = false")
        )
    chosen = np.sort(rng.choice(len(able), rule.clients, replace=False))
    train, test = [], []
    for rows in (able[index] for index in chosen):
        if official_test is None:
            first, second = _split(rule, labels, rows, rng)
        else:
            first = _sample(labels, rows[~of_test[rows]], rule.train, rng)
            second = _sample(labels, rows[of_test[rows]], rule.test, rng)
        train.append(first)
        test.append(second)
    notes: list[str] = []
    if rule.train:
        counts = np.array([len(rows) for rows in train])
        notes = shortfalls(rule, counts, rule.train, "training samples")
    return Partition(train, test, notes=notes)


def _has_minimum(of_test: Flags, *, pooled: bool) -> bool:
    test = int(of_test.sum())
    if pooled:
        return len(of_test) >= MIN_TRAIN + MIN_TEST
    return test >= MIN_TEST and len(of_test) - test >= MIN_TRAIN


def _split(
    rule: Rule, labels: Ints, rows: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    quota = np.bincount(labels[rows])[None]
    if rule.train:
        quota = thin(quota, np.array([rule.train + rule.test]))
    test = share_for_test(quota, sizes_for_test(rule, quota))
    first, second = _serve(labels, rows, np.vstack([quota - test, test]), rng)
    return first, second


def _sample(labels: Ints, rows: Ints, size: int, rng: np.random.Generator) -> Ints:
    quota = np.bincount(labels[rows])[None]
    return _serve(labels, rows, thin(quota, np.array([size or len(rows)])), rng)[0]


def _serve(
    labels: Ints, pool: Ints, quota: Ints, rng: np.random.Generator
) -> list[Ints]:
    """Fill each row of ``quota`` with random samples of the pool, none twice."""
    served: list[list[Ints]] = [[] for _ in quota]
    for label in np.flatnonzero(quota.sum(axis=0)):
        order = rng.permutation(pool[labels[pool] == label])
        ends = np.cumsum(quota[:, label])
        for mine, rows in zip(served, np.split(order, ends)[:-1], strict=True):
            mine.append(rows)
    return [np.sort(np.concatenate(mine)) for mine in served]


def split(
    labels: Ints, *, test_fraction: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return training and test indices of one client's own data, class by class."""
    if len(labels) < 2:
        raise ValueError(
            f"{len(labels)} samples cannot be split in two; need 2 or more"
        )
    size = min(max(round(test_fraction * len(labels)), 1), len(labels) - 1)
    quota = np.bincount(labels)[None]
    test = share_for_test(quota, np.array([size]))
    first, second = _serve(
        labels, np.arange(len(labels)), np.vstack([quota - test, test]), rng
    )
    return first, second
