"""Section 23.11, tests 3 and 6: memberships from a snapshot, and their limits."""

import numpy as np
import pytest

from fedapp.hdc.grouping import choose_groups, hard_memberships, memberships
from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.mixture import group_weights, mixing_matrix
from fedapp.hdc.refresh import Groups
from fedapp.hdc.stability import Snapshot, snapshot
from fedapp.hdc.variants import (
    centroid_scores,
    hard_groups,
    one_group,
    random_groups,
    soft_groups,
)

HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]
COUNTS = np.array([10, 30, 20, 20])
ENCODERS = np.array([1.0, 2.0, 5.0, 7.0])
CLIENTS = [0, 1, 2, 3]
SCORES = [
    [0.998348, 0.049752],
    [0.998348, -0.049752],
    [-0.049752, 0.998348],
    [0.049752, 0.998348],
]


def toy(clients=(0, 1, 2, 3)) -> Snapshot:
    directions = principal_directions(gram(HEADS), energy=0.8, rank=0).directions
    rows = np.stack([descriptor(head, directions) for head in HEADS])
    found = choose_groups(
        clients, rows, max_groups=8, min_silhouette=0.05, seed=7, previous={}
    )
    return snapshot(clients, found.labels, rows)


def mixed(groups: Groups, *, mix: float = 1.0) -> list[float]:
    matrix = mixing_matrix(groups.weights, groups.labels, COUNTS, mix=mix)
    return (matrix @ ENCODERS).tolist()


def cloud(groups: int = 3, each: int = 5, seed: int = 4):
    """Return labels and unit descriptors whose group means are far from unit length."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(groups), each)
    rows = np.eye(6)[labels] + 0.6 * rng.standard_normal((groups * each, 6))
    return labels, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_scores_come_from_inner_products_alone():
    np.testing.assert_allclose(centroid_scores(toy()), SCORES, atol=1e-6)


def test_they_are_those_of_descriptors_and_normalised_means():
    labels, rows = cloud()
    means = np.stack([rows[labels == g].mean(axis=0) for g in range(3)])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    found = snapshot(range(15), labels, rows)
    np.testing.assert_allclose(centroid_scores(found), rows @ units.T, atol=1e-12)
    soft = soft_groups(range(15), found, temperature=0.1).weights
    expected = memberships(rows, units, temperature=0.1)
    np.testing.assert_allclose(soft, expected, atol=1e-10)
    hard = hard_groups(range(15), found).weights
    assert hard.tolist() == hard_memberships(rows, units).tolist()


def test_a_group_without_a_direction_scores_nothing():
    rows = np.array([[1.0, 0], [-1, 0], [0, 1], [0, 1]])
    found = snapshot(CLIENTS, np.array([0, 0, 1, 1]), rows)
    assert centroid_scores(found)[:, 0].tolist() == [0, 0, 0, 0]


def test_the_mixtures_of_the_specification():
    groups = soft_groups(CLIENTS, toy(), temperature=0.5)
    assert mixed(groups) == pytest.approx(
        [2.304313, 2.215233, 5.534767, 5.445687], abs=1e-5
    )
    assert mixed(groups, mix=0.5) == pytest.approx(
        [1.652156, 2.107617, 5.267383, 6.222844], abs=1e-5
    )
    sharp = soft_groups(CLIENTS, toy(), temperature=0.1)
    assert sharp.weights[0] == pytest.approx([0.999924, 0.000076], abs=1e-6)


def test_no_mix_is_the_own_encoder():
    groups = soft_groups(CLIENTS, toy(), temperature=0.5)
    assert mixed(groups, mix=0.0) == ENCODERS.tolist()


def test_one_group_is_the_population_prototype():
    groups = one_group(soft_groups(CLIENTS, toy(), temperature=0.5))
    assert mixed(groups) == pytest.approx([3.875] * 4)
    assert groups.ids == (0,)


def test_hard_is_the_limit_of_a_low_temperature():
    cold = soft_groups(CLIENTS, toy(), temperature=1e-3)
    assert mixed(hard_groups(CLIENTS, toy())) == pytest.approx([1.75, 1.75, 6, 6])
    assert mixed(cold) == pytest.approx([1.75, 1.75, 6, 6], abs=1e-12)


def test_a_high_temperature_gives_the_plain_mean_of_prototypes():
    warm = soft_groups(CLIENTS, toy(), temperature=1e9)
    assert mixed(warm) == pytest.approx([(1.75 + 6) / 2] * 4, abs=1e-6)


def test_the_order_of_clients_changes_the_order_of_rows_only():
    found = soft_groups(CLIENTS, toy(), temperature=0.5)
    order = [2, 0, 3, 1]
    other = soft_groups(order, toy(), temperature=0.5)
    assert other.weights.tolist() == found.weights[order].tolist()
    assert other.labels.tolist() == found.labels[order].tolist()


def test_clients_without_a_descriptor_get_the_population():
    clients = [0, 1, 2, 3, 9]
    counts = np.array([10, 30, 20, 20, 99])
    for groups in (
        soft_groups(clients, toy(), temperature=0.5),
        hard_groups(clients, toy()),
        one_group(soft_groups(clients, toy(), temperature=0.5)),
    ):
        assert groups.labels[4] == -1
        totals = np.bincount(groups.labels[:4], weights=counts[:4])
        weights = group_weights(groups.weights, groups.labels, counts)
        assert weights[4].tolist() == (totals / totals.sum()).tolist()


def test_random_groups_keep_sizes_and_sharpness():
    labels, rows = cloud()
    found = snapshot(range(15), labels, rows)
    groups = soft_groups(range(16), found, temperature=0.1)
    drawn = random_groups(groups, np.random.default_rng(1))
    assert drawn.labels.tolist() != groups.labels.tolist()
    assert sorted(drawn.labels) == sorted(groups.labels)
    pairs = [
        sorted((label, *row) for label, row in zip(g.labels, g.weights, strict=True))
        for g in (groups, drawn)
    ]
    assert pairs[0] == pairs[1]
    assert drawn.labels[15] == -1
    assert not drawn.weights[15].any()
    again = random_groups(groups, np.random.default_rng(1))
    assert again.labels.tolist() == drawn.labels.tolist()
