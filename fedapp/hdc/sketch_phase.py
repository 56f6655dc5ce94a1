"""Refreshes whose server has no heads: two phases, and what is kept between them.

Training brings Gram matrices; from their sum follow the directions that all clients
with a row are sent, and in the phase ``sketch`` answer with their sketches.
"""

from collections.abc import Mapping

import torch

from fedapp.bank import Bank
from fedapp.hdc.bank_rows import bank_grams, bank_moves
from fedapp.hdc.described import Described, from_sketches
from fedapp.hdc.geometry import summed_gram
from fedapp.hdc.heads import Floats, Subspace, principal_directions
from fedapp.params import Payload

GRAM = "gram"
"""Part of the state between the two phases."""


def summed(bank: Bank) -> Payload:
    """Return the sum of the Gram matrices in ``bank`` as state."""
    return {GRAM: {"sum": torch.from_numpy(summed_gram(bank_grams(bank)))}}


def subspace_of(state: Payload, *, energy: float, rank: int) -> Subspace:
    """Return the common directions between the two phases."""
    total = state[GRAM]["sum"].numpy()
    return principal_directions(total, energy=energy, rank=rank)


def described(
    bank: Bank,
    subspace: Subspace,
    sketches: Mapping[int, Floats],
    initial_head: Floats,
) -> Described:
    """Return what the ``sketches`` of clients with a whole row show."""
    moves = bank_moves(bank)
    known = {client: row for client, row in sketches.items() if client in moves}
    return from_sketches(known, subspace, list(moves.values()), initial_head)
