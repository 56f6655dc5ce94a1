"""Moments of classes, and the constants that clients agree on."""

import numpy as np
import pytest

from fedapp.config import SettingsError
from fedapp.statistics.moments import (
    agree,
    class_contrasts,
    class_moments,
    scaled_to,
    standardised,
)

FEATURES = np.array([[1.0, 10.0], [3.0, 20.0], [5.0, 60.0], [7.0, 70.0]])
LABELS = np.array([0, 2, 2, 0])


def test_moments_by_hand():
    # Class 0: (1 + 7, 10 + 70) / 4; class 1: nothing; class 2: (3 + 5, 20 + 60) / 4.
    expected = [2, 20, 0, 0, 2, 20, 0.5, 0, 0.5]
    assert class_moments(FEATURES, LABELS, 3).tolist() == expected


def test_contrasts_are_covariances_of_label_and_feature():
    found = class_contrasts(FEATURES, LABELS, 3)
    held = np.eye(3)[LABELS]
    for label in range(3):
        for column in range(2):
            covariance = np.cov(held[:, label], FEATURES[:, column], bias=True)[0, 1]
            assert found[2 * label + column] == pytest.approx(covariance)
    assert found[-3:] == pytest.approx([0.5 - 1 / 3, -1 / 3, 0.5 - 1 / 3])


def test_contrasts_do_not_move_with_what_all_samples_share():
    moved = class_contrasts(FEATURES + np.array([100.0, -3.0]), LABELS, 3)
    assert moved == pytest.approx(class_contrasts(FEATURES, LABELS, 3))
    assert class_moments(FEATURES + 100.0, LABELS, 3)[0] == 2 + 100 / 2


@pytest.mark.parametrize("take", [class_moments, class_contrasts])
def test_a_permutation_of_labels_permutes_classes(take):
    new_label = np.array([2, 0, 1])
    found = take(FEATURES, LABELS, 3).reshape(-1)
    mapped = take(FEATURES, new_label[LABELS], 3)
    for label in range(3):
        to = new_label[label]
        assert mapped[2 * to : 2 * to + 2].tolist() == (
            found[2 * label : 2 * label + 2].tolist()
        )


@pytest.mark.parametrize("take", [class_moments, class_contrasts])
def test_one_sample_one_class_and_constant_features_are_defined(take):
    assert np.isfinite(take(FEATURES[:1], LABELS[:1], 3)).all()
    assert np.isfinite(take(np.ones((4, 2)), np.zeros(4, dtype=int), 1)).all()


def test_scaling_sets_the_norm_and_leaves_zeros():
    assert scaled_to(np.array([3.0, 4.0]), 10).tolist() == [6, 8]
    assert scaled_to(np.zeros(3), 10).tolist() == [0, 0, 0]


def test_constants_are_mean_and_deviation_over_clients():
    found = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    mean, deviation = agree(found.sum(axis=0), (found**2).sum(axis=0), 3)
    assert mean.tolist() == [4, 5]
    # A number that all share becomes 0, not a division by zero.
    assert deviation == pytest.approx([np.std([1, 3, 8]), 1])
    scaled = standardised(found, np.tile(mean, (3, 1)), np.tile(deviation, (3, 1)))
    assert scaled.mean(axis=0) == pytest.approx([0, 0])
    assert scaled.std(axis=0) == pytest.approx([1, 0])


def test_what_differs_by_rounding_only_is_no_information():
    found = np.full((5, 1), 0.1, dtype=np.float32) + np.float32(1e-8)
    squares = (found * found).astype(np.float64)
    _, deviation = agree(found.astype(np.float64).sum(0), squares.sum(0), 5)
    assert deviation.tolist() == [1]


def test_the_order_of_clients_does_not_matter():
    found = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    one, two = (
        agree(f.sum(axis=0, dtype=float), (f**2).sum(axis=0, dtype=float), 9)
        for f in (found, found[::-1])
    )
    assert np.allclose(one, two, rtol=1e-12)


def test_constants_of_another_length_name_the_setting():
    with pytest.raises(SettingsError, match=r"of 2 numbers.* has 3: conditional\.len"):
        standardised(np.zeros(3), np.zeros(2), np.ones(2))
