"""Whole-number shares: how many samples of each class go to each client.

A quota is an int64 matrix (clients, classes). Everything here is arithmetic on such
matrices; which samples fill a quota is decided in ``partition``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def apportion(weights: Ints | Floats, total: int, *, low: Ints, high: Ints) -> Ints:
    """Divide ``total`` in proportion to ``weights``, each share within its bounds.

    Largest remainders; ties go to the first. ``weights`` need a positive sum and
    ``low.sum() <= total <= high.sum()``.
    """
    target: Floats = weights * (total / weights.sum())
    share: Ints = np.clip(np.floor(target).astype(np.int64), low, high)
    while missing := total - int(share.sum()):
        gap = target - share
        if missing > 0:
            share[np.argmax(np.where(share < high, gap, -np.inf))] += 1
        else:
            share[np.argmin(np.where(share > low, gap, np.inf))] -= 1
    return share


def thin(quota: Ints, sizes: Ints) -> Ints:
    """Reduce each client to at most its size, class proportions kept."""
    rows = [
        apportion(row, int(size), low=np.zeros_like(row), high=row)
        if row.sum() > size
        else row
        for row, size in zip(quota, sizes, strict=True)
    ]
    return np.stack(rows)


def confine(quota: Ints, allowed: Flags) -> Ints:
    """Move what a client must not see to those who may, in proportion to theirs."""
    out = np.where(allowed, quota, 0)
    for index, total in enumerate(quota.sum(axis=0)):
        may, held = allowed[:, index], out[:, index]
        if not may.any() or held.sum() == total:
            continue
        weights = held if held.sum() else may.astype(np.int64)
        most = np.where(may, total, 0)
        out[:, index] = apportion(weights, int(total), low=held, high=most)
    return out


def fill_up(quota: Ints, need: int, allowed: Flags) -> tuple[Ints, list[str]]:
    """Move samples from the largest client until each has ``need``; say which.

    A client is given classes it holds already, if the largest client has any.
    """
    out, notes = quota.copy(), []
    while (sizes := out.sum(axis=1)).min() < need:
        poor = int(sizes.argmin())
        useful = (out * allowed[poor]).sum(axis=1)
        useful[sizes <= need] = 0
        rich = int(np.where(useful > 0, sizes, 0).argmax())
        if useful[rich] == 0:
            classes = np.flatnonzero(allowed[poor]).tolist()
            raise ValueError(
                f"client {poor} cannot be given {need} samples: it may hold classes "
                f"{classes} only, and no other client can spare any; use fewer "
                "data.clients, more classes per client, or more data"
            )
        shared = (out[poor] > 0) * out[rich] * allowed[poor]
        choice = shared if shared.any() else out[rich] * allowed[poor]
        pick = int(choice.argmax())
        count = min(need - sizes[poor], sizes[rich] - need, out[rich, pick])
        out[rich, pick] -= count
        out[poor, pick] += count
        notes.append(
            f"{count} samples of class {pick} moved from client {rich} to client "
            f"{poor}, which had {sizes[poor]} of {need}"
        )
    return out, notes


def pair_up(quota: Ints) -> Ints:
    """Trade single samples, so that what a client holds can be in both its parts.

    A client with one sample of a class hands it to the one that holds most of the
    class, for one of the class they have most of in common. Sizes stay; singles nobody
    can trade stay too.
    """
    out = quota.copy()
    for client, single in np.argwhere(quota == 1):
        if out[client, single] != 1:
            continue
        # What they give must not leave them with a single of their own.
        theirs = (out == 1) | (out > 2)
        mine = (out[client] > 1) & (np.arange(out.shape[1]) != single)
        trades = theirs & mine & (out[:, single] > 0)[:, None]
        trades[client] = False
        if not trades.any():
            continue
        other = int(np.where(trades.any(axis=1), out[:, single], 0).argmax())
        common = np.minimum(out[client], out[other])
        back = int(np.where(trades[other], common, 0).argmax())
        out[client, single] -= 1
        out[other, single] += 1
        out[other, back] -= 1
        out[client, back] += 1
    return out


def share_for_test(quota: Ints, sizes: Ints) -> Ints:
    """Return how much of each quota goes to the test part; ``sizes`` in total.

    In proportion, but at least one of each class and never the last one, where the
    counts allow it.
    """
    rows = []
    for row, size in zip(quota, sizes, strict=True):
        high = np.maximum(row - 1, 0)
        if high.sum() < size:
            high = row
        low = np.minimum(1, high)
        if low.sum() > size:
            low = np.zeros_like(row)
            low[np.argsort(-high, kind="stable")[:size]] = 1
        rows.append(apportion(row, int(size), low=low, high=high))
    return np.stack(rows)


def follow(quota: Ints, pool: Ints) -> Ints:
    """Divide all of ``pool`` among clients, each class as in ``quota``."""
    out = np.zeros_like(quota)
    for index, total in enumerate(pool):
        held = quota[:, index]
        if held.sum() == 0:
            continue
        low = np.minimum(1, held)
        if low.sum() > total:
            low = np.zeros_like(held)
        high = np.where(held > 0, total, 0)
        out[:, index] = apportion(held, int(total), low=low, high=high)
    return out


def flags(sets: Sequence[set[int]], classes: int) -> Flags:
    """Return the sets as rows of a boolean matrix (len(sets), classes)."""
    out = np.zeros((len(sets), classes), dtype=np.bool_)
    for row, members in enumerate(sets):
        out[row, sorted(members)] = True
    return out
