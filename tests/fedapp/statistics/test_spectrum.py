"""Eigenvalues of labelled samples: the specified numbers, and what they cannot see."""

import numpy as np
import pytest

from fedapp.statistics.rows import balanced_scale, with_labels
from fedapp.statistics.spectrum import (
    leading_variances,
    transformed,
    variances_along,
)


def rows(x, y, classes, scale=1.0):
    pixels = np.array(x, dtype=np.float64)[:, None]
    return with_labels(pixels, np.array(y), classes, scale)


FOUR = (0, 2, 0, 2)
SIX, LABELS, MAPPED = (0, 0, 3, 3, 3, 6), (0, 0, 1, 1, 1, 2), (2, 2, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (FOUR, (0, 1, 0, 1), (1.5, 0, 0)),
        (FOUR, (0, 1, 1, 0), (1, 0.5, 0)),
        (FOUR, (1, 1, 1, 1), (1, 0, 0)),
        ((7,), (0,), (0, 0, 0)),
        ((2, 2, 2), (0, 0, 0), (0, 0, 0)),
    ],
    ids=["aligned", "crossed", "one class", "one sample", "constant"],
)
def test_two_classes_by_hand(x, y, expected):
    found = leading_variances(rows(x, y, 2), 5)
    assert found == pytest.approx([*expected, 0, 0], abs=1e-12)


def test_the_transform_is_the_logarithm_of_one_plus():
    found = transformed(leading_variances(rows(SIX, LABELS, 3), 4), "log")
    assert found == pytest.approx([1.706572, 0.300896, 0, 0], abs=1e-6)


def test_other_transforms_keep_the_scale_or_lose_it():
    values = np.array([3.0, 1.0, 0.0])
    assert transformed(values, "raw").tolist() == [3, 1, 0]
    assert transformed(values, "ratio").tolist() == [0.75, 0.25, 0]
    assert transformed(np.zeros(2), "ratio").tolist() == [0, 0]


@pytest.mark.parametrize("labels", [LABELS, MAPPED])
def test_a_permutation_of_labels_is_invisible(labels):
    found = leading_variances(rows(SIX, labels, 3), 4)
    assert found == pytest.approx([4.510043, 0.351068, 0, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(LABELS, (5.214745, 1.507478, 0, 0)), (MAPPED, (6.14199, 0.913566, 0, 0))],
)
def test_weighted_columns_make_it_visible(labels, expected):
    weighted = rows(SIX, labels, 3) * [1, 1, 2, 3]
    assert leading_variances(weighted, 4) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("labels", "expected"), [(LABELS, 3.555556), (MAPPED, 10.0)])
def test_so_does_a_probe(labels, expected):
    probe = np.array([[1.0], [1.0], [2.0], [-1.0]])
    found = variances_along(rows(SIX, labels, 3), probe)
    assert found == pytest.approx([expected], abs=1e-6)


def random_rows(count, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, width)) * rng.random(width) * 5 + 100


@pytest.mark.parametrize(("count", "width"), [(20, 300), (300, 20), (50, 50)])
def test_both_routes_agree_with_a_covariance(count, width):
    made = random_rows(count, width)
    covariance = np.cov(made, rowvar=False, bias=True)
    expected = np.linalg.eigvalsh(covariance)[::-1][:19]
    assert np.abs(leading_variances(made, 19) - expected).max() < 1e-9


def test_twenty_samples_have_nineteen_variances():
    found = leading_variances(random_rows(20, 300), 32)
    assert np.flatnonzero(found).tolist() == list(range(19))
    assert (np.diff(found[:19]) < 0).all()


def test_fewer_columns_than_numbers_are_filled_up():
    found = leading_variances(random_rows(50, 3), 5)
    assert (found[:3] > 0).all()
    assert found[3:].tolist() == [0, 0]


def test_variances_along_the_axes_are_those_of_the_columns():
    made = random_rows(40, 6)
    assert variances_along(made, np.eye(6)) == pytest.approx(made.var(axis=0))


def test_balanced_labels_have_as_much_variance_as_the_pixels():
    labels = np.arange(10).repeat(3)
    block = with_labels(np.zeros((30, 1)), labels, 10, balanced_scale(64, 10))[:, 1:]
    assert block.var(axis=0).sum() == pytest.approx(64)
    assert balanced_scale(64, 1) == 1.0
