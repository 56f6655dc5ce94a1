"""The partition kinds as draws: labels and a seed to a quota for each client.

IID and natural partitions come from flwr-datasets. A Dirichlet draw here equals that
of its ``DirichletPartitioner`` for the same seed, sample counts included; that class
needs about a second a draw on 60,000 samples, too long to redraw a hundred times, and
gives up where a small client must be filled up instead.
"""

import contextlib
import io

import numpy as np

from fedapp.data.dealing import deal_equally
from fedapp.data.quotas import (
    Flags,
    Floats,
    Ints,
    apportion,
    confine,
    fill_up,
    flags,
)
from fedapp.data.rule import N_WAY, Rule

REDRAWS = 100


def draw(
    rule: Rule,
    labels: Ints,
    size: int,
    need: int,
    rng: np.random.Generator,
    *,
    shots: int,
) -> tuple[Ints, list[str]]:
    """Return quotas of at least ``need``, of ``size`` where the kind has equal ones.

    ``shots`` are the samples of a class under n-way-k-shot.
    """
    pool = np.bincount(labels)
    pool = np.pad(pool, (0, rule.allowed.shape[1] - len(pool)))
    even, extra = divmod(len(labels), rule.clients)
    sizes = np.full(rule.clients, size or even)
    if not size:
        sizes[:extra] += 1
    allowed, notes = rule.allowed, []
    if rule.kind == "dirichlet":
        quota = _dirichlet(rule, labels, need)
    elif rule.kind == "label-subset":
        present = np.flatnonzero(pool)
        sets = label_sets(present, clients=rule.clients, width=rule.width, rng=rng)
        allowed = flags(sets, len(pool))
        quota = divide_among_holders(labels, allowed)
    elif rule.kind == N_WAY:
        allowed = flags(way_sets(rule, np.flatnonzero(pool), rng), len(pool))
        quota = np.minimum(divide_among_holders(labels, allowed), shots)
        notes = _few_shots(rule, quota, allowed, shots)
    elif rule.kind == "iid" and rule.free:
        quota = iid(labels, sizes, rng)
    else:
        quota = deal_equally(_weights(rule, pool, rng), sizes, pool)
        notes = _equal_notes(rule, quota, sizes, need)
    quota = np.pad(quota, ((0, 0), (0, len(pool) - quota.shape[1])))
    quota, moves = fill_up(quota, need, allowed)
    return quota, notes + moves


def _weights(rule: Rule, pool: Ints, rng: np.random.Generator) -> Floats:
    if rule.kind == "iid":
        frequent: Floats = rule.allowed * (pool / pool.sum())
        return frequent
    drawn: Floats = rule.allowed * proportions(
        rule.alpha, clients=rule.clients, classes=len(pool), rng=rng
    )
    return drawn


def _dirichlet(rule: Rule, labels: Ints, need: int) -> Ints:
    best, fewest = None, 0
    for attempt in range(1 + REDRAWS):
        seed = redraw_seed(rule.seed, attempt)
        quota = dirichlet(labels, clients=rule.clients, alpha=rule.alpha, seed=seed)
        quota = np.pad(quota, ((0, 0), (0, rule.allowed.shape[1] - quota.shape[1])))
        quota = confine(quota, rule.allowed)
        missing = int(np.maximum(need - quota.sum(axis=1), 0).sum())
        if best is None or missing < fewest:
            best, fewest = quota, missing
        if missing == 0:
            break
    assert best is not None
    return best


def _equal_notes(rule: Rule, quota: Ints, sizes: Ints, need: int) -> list[str]:
    got, least = quota.sum(axis=1), int(quota.sum(axis=1).min())
    if (got >= sizes).all():
        return []
    if rule.train or least < need:
        raise ValueError(
            f"only {least} of {int(sizes.max())} samples for each client: the classes "
            "that data.shift = 'label-window' leaves to a client are shared by too "
            "many; use fewer data.clients or data.samples-per-client, or other "
            "data.shift-groups"
        )
    return [
        f"{int((sizes - got).sum())} samples unused, so that clients have equal sizes"
    ]


def iid(labels: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Return the quotas of equal random shards of the samples."""
    from datasets import Dataset
    from flwr_datasets.partitioner import IidPartitioner

    order = rng.permutation(len(labels))[: sizes.sum()]
    partitioner = IidPartitioner(num_partitions=len(sizes))
    partitioner.dataset = Dataset.from_dict({"label": labels[order]})
    classes = int(labels.max()) + 1
    shards = (partitioner.load_partition(client) for client in range(len(sizes)))
    rows = [np.bincount(shard["label"], minlength=classes) for shard in shards]
    return np.stack(rows).astype(np.int64)


def proportions(
    alpha: float, *, clients: int, classes: int, rng: np.random.Generator
) -> Floats:
    """Return class proportions (clients, classes), each client's from Dir(alpha).

    Nothing is exactly 0: a client whose classes have all run out takes others.
    """
    draws: Floats = rng.dirichlet(np.full(classes, alpha), size=clients)
    return draws + 1e-12


def dirichlet(labels: Ints, *, clients: int, alpha: float, seed: int) -> Ints:
    """Return quotas with each class divided by one draw from Dir(alpha)."""
    rng = np.random.default_rng(seed)
    quota = np.zeros((clients, int(labels.max()) + 1), dtype=np.int64)
    for label in np.unique(labels):
        total = int((labels == label).sum())
        shares = np.cumsum(rng.dirichlet(np.full(clients, alpha))) * total
        ends = np.append(shares.astype(np.int64)[:-1], total)
        quota[:, label] = np.diff(ends, prepend=0)
    return quota


def redraw_seed(seed: int, attempt: int) -> int:
    """Return the seed of redraw ``attempt``, 0 for the first draw."""
    return int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])


def label_sets(
    present: Ints, *, clients: int, width: int, rng: np.random.Generator
) -> list[set[int]]:
    """Deal ``width`` distinct classes to each client, all classes equally often.

    Fresh permutations in a row, dealt ``width`` at a time. A class the client has
    already changes place with the next one in the row it lacks; at the end of the
    row, with one dealt before, where neither client then holds a class twice.
    """
    if not 1 <= width <= len(present):
        raise ValueError(
            f"data.classes-per-client = {width}, but the data set has {len(present)} "
            "classes with samples; choose a number from 1 to that"
        )
    slots = clients * width
    decks = [rng.permutation(present) for _ in range(-(-slots // len(present)))]
    row: list[int] = np.concatenate(decks)[:slots].tolist()
    for slot in range(slots):
        first = slot - slot % width
        if row[slot] in row[first:slot]:
            other = _exchange(row, slot, width)
            row[slot], row[other] = row[other], row[slot]
    return [set(row[at : at + width]) for at in range(0, slots, width)]


def way_sets(rule: Rule, present: Ints, rng: np.random.Generator) -> list[set[int]]:
    """Draw each client's classes: how many, within ``rule.ways``, and which."""
    fewest, most = rule.ways
    most = min(most, len(present))
    if fewest > most:
        raise ValueError(
            f"data.classes-per-client = {rule.width} with data.ways-spread = "
            f"{rule.spread} means {fewest} classes at least, but the data set has "
            f"{len(present)} with samples; choose fewer"
        )
    ways = rng.integers(fewest, most + 1, size=rule.clients)
    return [set(rng.choice(present, n, replace=False).tolist()) for n in ways]


def _few_shots(rule: Rule, quota: Ints, holders: Flags, shots: int) -> list[str]:
    tests = " with tests" if shots > rule.shots else ""
    return [
        f"class {label} suffices for {int(quota[held, label].min())} samples for each "
        f"of its {int(held.sum())} clients, not for the {shots} that data.shots = "
        f"{rule.shots} asks for{tests}"
        for label, held in enumerate(holders.T)
        if held.any() and quota[held, label].min() < shots
    ]


def _exchange(row: list[int], slot: int, width: int) -> int:
    first = slot - slot % width
    held = row[first:slot]
    for later in range(slot + 1, len(row)):
        if row[later] not in held:
            return later
    for earlier in range(first - 1, -1, -1):
        start = earlier - earlier % width
        if row[earlier] not in held and row[slot] not in row[start : start + width]:
            return earlier
    raise AssertionError("a dealt class can always be exchanged")


def divide_among_holders(labels: Ints, holders: Flags) -> Ints:
    """Return quotas with each class divided equally among those who hold it."""
    quota = np.zeros(holders.shape, dtype=np.int64)
    for label, total in enumerate(np.bincount(labels, minlength=holders.shape[1])):
        held = holders[:, label].astype(np.int64)
        if held.any():
            quota[:, label] = apportion(
                held, int(total), low=np.zeros_like(held), high=held * total
            )
    return quota


def rows_by_owner(owners: Ints) -> list[Ints]:
    """Return the rows of each natural client; negative owners are nobody."""
    from datasets import Dataset
    from flwr_datasets.partitioner import NaturalIdPartitioner

    owned = np.flatnonzero(owners >= 0)
    partitioner = NaturalIdPartitioner(partition_by="owner")
    partitioner.dataset = Dataset.from_dict({"row": owned, "owner": owners[owned]})
    # The partitioner draws a progress bar whatever the settings.
    with contextlib.redirect_stderr(io.StringIO()):
        count = partitioner.num_partitions
        parts = [partitioner.load_partition(index)["row"] for index in range(count)]
    return [np.array(part[:], dtype=np.int64) for part in parts]
