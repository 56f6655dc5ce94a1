"""What a client says of a head that it keeps: enough for the directions of all.

The server needs only the sum of the Gram matrices and the median of the moves.
"""

import numpy as np
import torch

from fedapp.hdc.clipping import factors
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import Array, Floats, gram
from fedapp.hdc.stability import move
from fedapp.params import Params
from fedapp.turn import Spec

ROUNDING = 1e-9
"""Share of its trace by which a Gram matrix may miss being one."""


def geometry_of(head: Floats, initial: Floats) -> Params:
    """Return ``W W^T`` (C x C) and ``||W - W_0||``, in float64 as the server sums."""
    return {
        "gram": torch.from_numpy(gram([head])),
        "moved": torch.tensor(move(head, initial), dtype=torch.float64),
    }


def geometry_specs(classes: int) -> dict[str, Spec]:
    """Return what ``geometry_of`` gives for heads of so many classes."""
    return {
        "gram": Spec((classes, classes), torch.float64),
        "moved": Spec((), torch.float64),
    }


def check_geometry(tree: Params) -> None:
    """Raise ValueError if no head can have this Gram matrix and this move."""
    matrix, moved = tree["gram"].numpy(), float(tree["moved"])
    with np.errstate(over="ignore"):
        size = float(np.trace(matrix))
    if not 0 <= size < float("inf") or moved < 0:
        raise ValueError(
            f"its head cannot have a squared norm of {size} and have moved by {moved}"
        )
    # Divided first: entries near the largest number would overflow below.
    with np.errstate(all="ignore"):
        unit = matrix / size if size > 0 else matrix
        apart = float(np.abs(unit - unit.T).max())
    if not apart <= ROUNDING or float(np.linalg.eigvalsh(unit)[0]) < -ROUNDING:
        raise ValueError(
            "geometry/gram is no Gram matrix of a head: W W^T is "
            "symmetric and has no negative eigenvalue"
        )


def summed_gram(grams: Heads) -> Array:
    """Return the sum of the clients' Gram matrices, large heads clipped.

    Sums run in ascending order of clients; the result is that of ``heads.gram`` on the
    clipped heads.
    """
    by = factors(float(np.sqrt(np.trace(matrix))) for matrix in grams.each())
    total: Array | None = None
    for matrix, factor in zip(grams.each(), by, strict=True):
        part = np.asarray(matrix, dtype=np.float64) * factor**2
        total = part if total is None else total + part
    if total is None:
        raise ValueError("need at least one Gram matrix; got none")
    return total
