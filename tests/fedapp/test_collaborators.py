import numpy as np
import pytest

from fedapp.collaborators import collaborators, distances, near, shares, threshold

HEADS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
COUNTS = np.array([10.0, 20.0, 30.0, 40.0])
OWN = np.array([1 / 18, 4 / 18, 1.0])
"""Distances of client 0 to clients 1, 2 and 3: squares 1, 4 and 18."""


def test_distances_by_hand():
    assert distances(HEADS[0], HEADS[1:]) == pytest.approx(OWN)
    others = distances(HEADS[1], HEADS[[0, 2, 3]])
    # Squares 1, 5 and 13: not symmetric.
    assert others == pytest.approx([1 / 13, 5 / 13, 1.0])
    assert others[0] == pytest.approx(0.076923, abs=1e-6)


def test_equal_heads_are_at_distance_zero():
    assert distances(HEADS[1], HEADS[[1, 1]]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("round_", "tau"), [(0, 0.425926), (5, 0.240741), (10, 0.055556)]
)
def test_the_threshold_falls_from_the_mean_to_the_minimum(round_, tau):
    assert threshold(OWN, round=round_, last=10) == pytest.approx(tau, abs=1e-6)


def test_collaborators_become_fewer_and_the_nearest_is_never_lost():
    found = [collaborators(OWN, round=t, last=10).tolist() for t in (0, 5, 9, 10)]
    assert found == [[0, 1], [0, 1], [0], [0]]


def test_the_nearest_is_kept_whatever_the_rounding():
    generator = np.random.default_rng(0)
    lost = 0
    for _ in range(200):
        values = generator.random(7)
        values /= values.max()
        lost += bool(threshold(values, round=10, last=10) < values.min())
        assert values.argmin() in collaborators(values, round=10, last=10)
    assert lost > 0


def test_a_collaborator_is_near_and_below_the_threshold():
    # The mean is .26; the kinds part between .2 and .9.
    values = np.array([0.1, 0.15, 0.2, 0.9, 0.1, 0.12])
    assert near(values).tolist() == [True, True, True, False, True, True]
    assert collaborators(values, round=0, last=4).tolist() == [0, 1, 2, 4, 5]
    # Half way from the mean to the minimum: .18.
    assert collaborators(values, round=2, last=4).tolist() == [0, 1, 4, 5]
    # The mean is .56, so .5 is below it, but it is of the far kind.
    values = np.array([0.01, 0.02, 0.5, 0.8, 0.9, 0.9, 0.8])
    assert near(values).tolist() == [True, True, False, False, False, False, False]
    assert collaborators(values, round=0, last=4).tolist() == [0, 1]


def test_two_clear_kinds_are_told_apart_whatever_their_order():
    values = np.array([0.9, 0.1, 1.0, 0.12, 0.95, 0.08])
    assert near(values).tolist() == [False, True, False, True, False, True]


@pytest.mark.parametrize("values", [[0.1, 0.9, 1.0], [0.5] * 8, []])
def test_few_or_equally_distant_peers_are_all_near(values):
    assert near(np.array(values)).all()


def test_near_is_the_split_with_the_smallest_squares():
    generator = np.random.default_rng(3)
    for count in (4, 5, 19):
        values = generator.random(count) ** 3
        ordered = np.sort(values)
        squares = [
            sum(((part - part.mean()) ** 2).sum() for part in np.split(ordered, [cut]))
            for cut in range(1, count)
        ]
        lower = ordered[: 1 + int(np.argmin(squares))]
        assert near(values).tolist() == [value in lower for value in values]


def test_a_lone_outlier_is_far():
    with np.errstate(all="raise"):
        assert near(np.array([0.0] * 50 + [1.0])).tolist() == [True] * 50 + [False]


def test_weights_in_the_teacher_by_hand():
    values, counts = np.append(OWN[:2], 0.0), COUNTS[[1, 2, 0]]
    found = shares(values, counts, similarity=0.5)
    assert found == pytest.approx([0.380952, 0.25, 0.369048], abs=1e-6)
    assert found.sum() == pytest.approx(1.0)
    # As printed: without the client itself in maximum, mean, count and sum.
    assert found @ HEADS[[1, 2, 0]] == pytest.approx([0.380952, 0.5], abs=1e-6)


def test_one_collaborator_divides_nothing_by_zero():
    found = shares(np.array([OWN[0], 0.0]), COUNTS[[1, 0]], similarity=0.5)
    assert found == pytest.approx([1 / 3, 2 / 3])


def test_at_equal_distances_all_are_alike():
    found = shares(np.zeros(4), COUNTS, similarity=0.5)
    assert found == pytest.approx(0.5 / 4 + 0.5 * COUNTS / 100)


@pytest.mark.parametrize("similarity", [0.0, 1.0])
def test_the_share_of_similarity(similarity):
    values = np.array([0.2, 0.4, 0.0])
    found = shares(values, COUNTS[:3], similarity=similarity)
    size = COUNTS[:3] / 60
    close = np.array([0.2, 0.0, 0.4]) / 0.6
    assert found == pytest.approx(close if similarity else size)
