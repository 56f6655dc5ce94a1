"""What stands for a head at the server: a Gram matrix, and how far it moved."""

import numpy as np
import pytest
import torch
from planted import store

from fedapp.hdc.clipping import LIMIT
from fedapp.hdc.geometry import check_geometry, geometry_of, summed_gram
from fedapp.hdc.heads import gram
from fedapp.hdc.stability import head_change, relative_change

RNG = np.random.default_rng(0)
INITIAL = RNG.standard_normal((4, 6)).astype(np.float32)
HEADS = [INITIAL + RNG.standard_normal((4, 6)).astype(np.float32) for _ in range(5)]


def geometry(matrix, moved=1.0):
    wide = torch.as_tensor(np.array(matrix, dtype=float))
    return {"gram": wide, "moved": torch.tensor(moved, dtype=torch.float64)}


def total(heads):
    return summed_gram(
        store(np.stack([geometry_of(head, INITIAL)["gram"].numpy() for head in heads]))
    )


def test_the_sum_is_that_of_the_heads_to_the_bit():
    np.testing.assert_array_equal(total(HEADS), gram(HEADS))


def test_a_large_head_counts_as_one_at_the_limit():
    median = np.median([np.linalg.norm(head) for head in [*HEADS, 1e9 * HEADS[0]]])
    clipped = HEADS[0] * (LIMIT * median / np.linalg.norm(HEADS[0]))

    np.testing.assert_allclose(
        total([*HEADS, 1e9 * HEADS[0]]), gram([*HEADS, clipped]), rtol=1e-6
    )


def test_moves_give_the_head_change_to_the_bit():
    moves = [float(geometry_of(head, INITIAL)["moved"]) for head in HEADS]

    assert relative_change(moves, INITIAL) == head_change(HEADS, INITIAL)


@pytest.mark.parametrize(
    "head",
    [*HEADS, 0 * INITIAL, 1e37 * INITIAL, np.outer([1, 2, -3, 0], INITIAL[0])],
)
def test_real_heads_pass(head):
    check_geometry(geometry_of(head, INITIAL))


@pytest.mark.parametrize(
    "made_up",
    [
        geometry(np.diag([1.0, -1e-6, 1, 1])),
        geometry(-np.eye(4)),
        geometry([[1.0, 2.0], [2.0, 1.0]]),
        geometry([[1.0, 0.1], [0.0, 1.0]]),
        geometry([[0.0, 1.0], [1.0, 0.0]]),
        geometry(1e308 * np.eye(4)),
        geometry([[1e-300, 1e300], [1e300, 1e-300]]),
        geometry(np.eye(4), moved=-1.0),
    ],
)
def test_what_no_head_can_have_is_refused(made_up):
    with pytest.raises(ValueError, match=r"cannot have|no Gram matrix"):
        check_geometry(made_up)


def test_no_client_has_no_sum():
    with pytest.raises(ValueError, match="at least one"):
        total([])
