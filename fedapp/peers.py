"""Whom a client learns from in DAC: similarities, two hops, and the draw of peers.

A similarity matrix s (clients, clients) is 0 where nothing is known; ``known`` marks
what a client has measured itself.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SMALLEST_LOSS = 1e-6


def similarity_of(losses: Floats) -> Floats:
    """Return one over each loss; losses below 1e-6 count as that."""
    return 1.0 / np.maximum(losses, SMALLEST_LOSS)


def sharpness(step: int, *, most: float, growth: float) -> float:
    """Return tau_t = 2a / (1 + exp(-b t)) - a + 1 (DAC-var), a = most, b = growth.

    ``step`` counts rounds from 0; tau rises from 1 to a + 1.
    """
    return float(2 * most / (1 + np.exp(-growth * step)) - most + 1)


def probabilities(similarity: Floats, *, tau: float) -> Floats:
    """Return the soft-max of tau times each candidate's similarity, safe to overflow"""
    scaled = tau * (similarity - similarity.max())
    weights: Floats = np.exp(scaled)
    return weights / weights.sum()


def draw_peers(
    candidates: list[int],
    similarity: Floats,
    *,
    count: int,
    tau: float,
    rng: np.random.Generator,
) -> list[int]:
    """Return ``count`` of the candidates (or all), none twice, sorted.

    They are drawn by ``probabilities`` of ``similarity``, one value per candidate. If
    fewer have a probability above 0, the next most similar fill up, the first of
    equals first.
    """
    if len(candidates) <= count:
        return sorted(candidates)
    chances = probabilities(similarity, tau=tau)
    possible = np.flatnonzero(chances > 0)
    if len(possible) > count:
        picks = rng.choice(len(candidates), size=count, replace=False, p=chances)
    else:
        order = np.argsort(-similarity, kind="stable")
        others = [index for index in order if chances[index] == 0]
        picks = np.array([*possible, *others][:count])
    return sorted(candidates[int(index)] for index in picks)


def two_hops(similarity: Floats, known: Flags) -> Floats:
    """Return s with estimates for those a client has not measured itself.

    Client i takes s_kj of the peer k it has measured with the largest s_ik among those
    with s_kj > 0; the first of equals. All read the matrix as it is given, so that no
    order of clients matters.
    """
    found = similarity.copy()
    for client in range(len(similarity)):
        peers = np.flatnonzero(known[client])
        peers = peers[np.argsort(-similarity[client, peers], kind="stable")]
        for other in np.flatnonzero(~known[client]):
            if other == client:
                continue
            able = peers[similarity[peers, other] > 0]
            if len(able):
                found[client, other] = similarity[able[0], other]
    return found
