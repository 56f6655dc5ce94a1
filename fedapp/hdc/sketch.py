"""Descriptors that leave a client as a few numbers, in place of its head.

The server sends the leading directions U (C x rank) of all heads. A client answers
with a fixed random projection of ``U U^T W``, which has the norm and the inner
products of its descriptor ``vec(U^T W)``: for any one U this is a Gaussian projection
of the descriptor, but flipping or rotating the columns of U does not change it, so
that sketches of two refreshes have common coordinates. The projection is public.
"""

import random
import zlib
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedapp.hdc.heads import NORM_FLOOR, Array, Floats
from fedapp.hdc.privacy import sigma_for

SKETCH = "sketch"
"""The phase of a refresh round in which clients send their sketches."""

Exchange = Annotated[
    Literal["heads", "sketch"],
    Field(description="what the server gets of a head: all of it, or a sketch"),
]
SketchLength = Annotated[int, Field(ge=1, description="numbers in a sketch")]
Epsilon = Annotated[
    float,
    Field(ge=0, description="privacy of a sketch: small hides more; 0: no noise"),
]
Delta = Annotated[
    float, Field(gt=0, lt=1, description="chance that epsilon may fail to hold")
]


def project(head: Floats, directions: Array, *, length: int, seed: int) -> Array:
    """Return ``length`` random combinations of the descriptor of ``head``.

    Their inner products are those of descriptors on average over ``seed``, with a
    variance of ``(1 + cos^2) / length``. All zero for a head without a descriptor.
    """
    wide = np.asarray(head, dtype=np.float64)
    # einsum and sum rather than BLAS: the bits must not depend on threads.
    inside = np.einsum(
        "cr,rd->cd", directions, np.einsum("cr,cd->rd", directions, wide)
    )
    norm = float(np.sqrt(np.sum(inside**2)))
    if norm < NORM_FLOOR:
        return np.zeros(length)
    flat = inside.ravel() / norm
    public = np.random.default_rng([seed, zlib.crc32(b"sketch")])
    # One row of the projection in memory at a time.
    numbers = [np.sum(public.standard_normal(flat.size) * flat) for _ in range(length)]
    return np.array(numbers) / np.sqrt(length)


def sketch(head: Floats, directions: Array, *, length: int, seed: int) -> Array:
    """Return ``project(...)`` as a unit vector, or zeros: of norm 1 at the most.

    The norm after a random projection has no bound; noise is made for one.
    """
    numbers = project(head, directions, length=length, seed=seed)
    norm = float(np.sqrt(np.sum(numbers**2)))
    return np.zeros(length) if norm < NORM_FLOOR else numbers / norm


def blurred(numbers: Array, noise: Array, *, epsilon: float, delta: float) -> Array:
    """Return a sketch with as much ``noise`` as makes it (epsilon, delta)-private.

    ``noise`` is standard normal. Any head gives a point of the unit ball, so any two
    are at most 2 apart; zeros get noise like all others. An ``epsilon`` of 0 adds none.
    """
    if epsilon == 0:
        return numbers
    return numbers + sigma_for(epsilon=epsilon, delta=delta) * noise


def normal_numbers(
    length: int, *, seed: int, client: int, round: int, simulated: bool
) -> Array:
    """Return standard normal numbers for the noise of one sketch.

    In a simulation they can be repeated, so that runs can; whoever knows the seed can
    take such noise off again. On a device they come from the system.
    """
    if simulated:
        key = [seed, client, round, zlib.crc32(b"sketch noise")]
        return np.random.default_rng(key).standard_normal(length)
    system = random.SystemRandom()
    return np.array([system.gauss(0.0, 1.0) for _ in range(length)])
