"""Section 12, tests 1 to 3, and edge cases."""

from itertools import permutations

import numpy as np
import pytest
import torch

from fedapp.transport import (
    cosine_distances,
    distinct_keys,
    embedding_distance,
    neighbours,
    projected_width,
    projection,
    transport_cost,
)


def test_mass_moves_the_shortest_way():
    one, other = np.array([0.0, 1.0]), np.array([0.0, 3.0])
    assert transport_cost(np.abs(one[:, None] - other)) == pytest.approx(1.0)


def test_cosine_ground_distances_by_hand():
    one = np.array([[1.0, 0.0], [0.0, 1.0]])
    twice = np.array([[1.0, 0.0], [1.0, 0.0]])
    thrice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert embedding_distance(one, twice) == pytest.approx(0.5)
    assert embedding_distance(one, thrice) == pytest.approx(1 / 6)
    assert embedding_distance(thrice, one) == pytest.approx(1 / 6)


def test_equal_sets_of_one_size_are_an_assignment():
    costs = np.random.default_rng(0).random((5, 5))
    best = min(costs[range(5), list(order)].mean() for order in permutations(range(5)))
    assert transport_cost(costs) == pytest.approx(best)


def test_lengths_do_not_matter_and_zero_is_allowed():
    one, other = np.array([[2.0, 0.0], [0.0, 0.1]]), np.array([[5.0, 0.0], [0.0, 7.0]])
    assert embedding_distance(one, other) == pytest.approx(0, abs=1e-9)
    zero = np.zeros((1, 2))
    assert cosine_distances(zero, one).tolist() == [[1.0, 1.0]]
    assert embedding_distance(zero, zero) == 1.0


@pytest.mark.parametrize(
    ("width", "ratio", "kept"),
    [(10, 0.9, 9), (512, 0.9, 461), (100, 0.07, 7), (1, 0.1, 1), (64, 1.0, 64)],
)
def test_the_projection_keeps_a_share_of_the_width(width, ratio, kept):
    assert projected_width(width, ratio) == kept
    assert projection(width, ratio, seed=1).shape == (width, kept)


def test_the_projection_is_one_for_all_of_a_run():
    assert torch.equal(projection(8, 0.9, seed=1), projection(8, 0.9, seed=1))
    assert not torch.equal(projection(8, 0.9, seed=1), projection(8, 0.9, seed=2))


DISTANCES = np.array(
    [
        [0.0, 0.01, 0.30, 0.02],
        [0.02, 0.0, 0.28, 0.04],
        [0.25, 0.31, 0.0, 0.33],
        [0.01, 0.03, 0.29, 0.0],
    ]
)
ALL = np.ones((4, 4), dtype=bool)


def sets(rows):
    return [set(np.flatnonzero(row).tolist()) for row in rows]


def test_keys_are_neighbourhoods_not_components():
    keys, index = distinct_keys(neighbours(DISTANCES, ALL, 0.025))
    assert sets(keys) == [{0, 1, 3}, {0, 1}, {2}, {0, 3}]
    assert index.tolist() == [0, 1, 2, 3]


def test_equal_neighbourhoods_share_a_key():
    keys, index = distinct_keys(neighbours(DISTANCES, ALL, 0.05))
    assert sets(keys) == [{0, 1, 3}, {2}]
    assert index.tolist() == [0, 0, 1, 0]


def test_neighbours_are_so_both_ways_and_strictly():
    one_way = DISTANCES.copy()
    one_way[1, 0] = 0.025
    assert not neighbours(one_way, ALL, 0.025)[0, 1]


def test_everyone_is_its_own_neighbour_whatever_the_diagonal():
    far = DISTANCES + np.eye(4)
    assert sets(neighbours(far, ALL, 1e-9)) == [{0}, {1}, {2}, {3}]


def test_an_unknown_pair_is_not_close():
    known = ALL.copy()
    known[1, 0] = False
    keys, _ = distinct_keys(neighbours(DISTANCES, known, 0.025))
    assert sets(keys) == [{0, 3}, {1}, {2}]
