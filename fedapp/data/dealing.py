"""Deal a pool of samples to clients in rounds, so that no client is favoured."""

import numpy as np

from fedapp.data.quotas import Flags, Floats, Ints


def deal(
    weights: Floats, sizes: Ints, pool: Ints, *, all_classes: bool = False
) -> Ints:
    """Fill quotas of ``sizes`` samples, a sample per client and round, from ``pool``.

    Each client takes the class with the largest ``weight / (2 held + 1)`` among those
    left in the pool (Sainte-Lague's rule), so its quota stays proportional to its row
    of ``weights`` and, once a class has run out, to the rest of the row. The first
    pick moves on by one client each round. A client whose classes have all run out
    is given a sample by one that can take another class instead; it stops early if
    nobody can. ``all_classes``: take one of every class of positive weight first.
    """
    quota = np.zeros(weights.shape, dtype=np.int64)
    left = pool.copy()
    stuck = np.zeros(len(sizes), dtype=np.bool_)
    offset = 1e-9 if all_classes else 0.5
    for turn in range(int(sizes.max(initial=0))):
        score = np.where(left > 0, weights, 0.0) / (quota + offset)
        active = np.flatnonzero((sizes > turn) & ~stuck)
        picks = score[active].argmax(axis=1)
        demand = np.bincount(picks, minlength=len(left))
        if score[active].any(axis=1).all() and (demand <= left).all():
            quota[active, picks] += 1
            left -= demand
            continue
        for client in np.roll(active, -(turn % max(len(active), 1))):
            score = np.where(left > 0, weights[client], 0.0) / (quota[client] + offset)
            if score.any():
                pick = int(score.argmax())
                quota[client, pick] += 1
                left[pick] -= 1
            else:
                stuck[client] = not _make_room(quota, left, weights > 0, int(client))
    return quota


def _make_room(quota: Ints, left: Ints, may: Flags, client: int) -> bool:
    """Give ``client`` a sample of an exhausted class, in place, if others can move.

    Searches the shortest chain: one who holds a class of ``client`` takes another
    class instead, from the pool or from one who does the same.
    """
    queue = np.flatnonzero(may[client]).tolist()
    reached: dict[int, tuple[int, int]] = {}
    seen = set(queue)
    for wanted in queue:
        for holder in np.argsort(-quota[:, wanted], kind="stable"):
            if quota[holder, wanted] == 0:
                break
            for other in np.flatnonzero(may[holder]).tolist():
                if other in seen:
                    continue
                seen.add(other)
                queue.append(other)
                reached[other] = (wanted, int(holder))
                if left[other] > 0:
                    left[other] -= 1
                    while other in reached:
                        freed, mover = reached[other]
                        quota[mover, other] += 1
                        quota[mover, freed] -= 1
                        other = freed
                    quota[client, other] += 1
                    return True
    return False


def deal_equally(weights: Floats, sizes: Ints, pool: Ints) -> Ints:
    """Deal ``sizes``, or what every client can have if that is less.

    Rounds are the same whatever the sizes, so the level at which the first client
    found nothing is one that all reach.
    """
    quota = deal(weights, sizes, pool)
    if (quota.sum(axis=1) < sizes).any():
        quota = deal(weights, np.minimum(sizes, quota.sum(axis=1).min()), pool)
    return quota
