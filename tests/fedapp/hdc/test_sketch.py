"""Sketches: inner products on average, a bound on the norm, calibrated noise."""

import numpy as np
import pytest

from fedapp.hdc.described import from_sketches
from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.privacy import sigma_for
from fedapp.hdc.sketch import (
    blurred,
    normal_numbers,
    project,
    sketch,
)

LENGTH, SEEDS = 16, 400


def received(numbers):
    """Return what a refresh makes of a sketch."""
    seen = from_sketches({7: numbers}, None, [1.0], np.ones(1))
    (found,) = seen.descriptors.each()
    return found


def random_heads(count=3, classes=5, features=8):
    rng = np.random.default_rng(3)
    common = rng.standard_normal((classes, features))
    return [common + rng.standard_normal((classes, features)) for _ in range(count)]


HEADS = random_heads()
DIRECTIONS = principal_directions(gram(HEADS), energy=0.8, rank=3).directions
COSINE = float(descriptor(HEADS[0], DIRECTIONS) @ descriptor(HEADS[1], DIRECTIONS))


def products(what):
    pairs = [
        [what(head, DIRECTIONS, length=LENGTH, seed=seed) for head in HEADS[:2]]
        for seed in range(SEEDS)
    ]
    return np.array([first @ second for first, second in pairs])


def test_projections_keep_inner_products_of_descriptors_on_average():
    found = products(project)

    variance = (1 + COSINE**2) / LENGTH
    assert found.mean() == pytest.approx(COSINE, abs=4 * (variance / SEEDS) ** 0.5)
    # A sample variance of normal numbers has the relative deviation sqrt(2 / n).
    assert found.var() == pytest.approx(variance, rel=4 * (2 / SEEDS) ** 0.5)


def test_sketches_keep_them_up_to_a_share_of_the_length():
    # Dividing by the norm moves the mean by cos (1 - cos^2) / 2 length, to first order.
    found = products(sketch)
    bias = COSINE * (1 - COSINE**2) / (2 * LENGTH)
    noise = 4 * (1 - COSINE**2) / (LENGTH * SEEDS) ** 0.5

    assert found.mean() == pytest.approx(COSINE - bias, abs=noise + 1 / LENGTH**2)


def test_long_sketches_are_exact():
    first, second = (
        sketch(head, DIRECTIONS, length=20_000, seed=0) for head in HEADS[:2]
    )

    assert first @ second == pytest.approx(COSINE, abs=4 * 20_000**-0.5)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e30])
def test_no_sketch_is_longer_than_one(scale):
    found = sketch(scale * HEADS[0], DIRECTIONS, length=7, seed=1)

    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(
        found, sketch(HEADS[0], DIRECTIONS, length=7, seed=1), atol=1e-12
    )


def test_a_head_without_a_descriptor_gives_zeros():
    zeros = sketch(np.zeros((5, 8)), DIRECTIONS, length=7, seed=1)

    np.testing.assert_array_equal(zeros, np.zeros(7))
    assert received(zeros) is None


def test_turning_the_directions_changes_no_sketch():
    """So sketches of two refreshes have common coordinates, unlike descriptors."""
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    straight = sketch(HEADS[0], DIRECTIONS, length=7, seed=1)

    for other in (DIRECTIONS @ turn, DIRECTIONS * [1, -1, 1]):
        np.testing.assert_allclose(
            sketch(HEADS[0], other, length=7, seed=1), straight, atol=1e-12
        )
    assert not np.allclose(
        sketch(HEADS[0], DIRECTIONS[:, :2], length=7, seed=1), straight
    )


def test_all_clients_share_one_projection_and_seeds_do_not():
    first = project(HEADS[0], DIRECTIONS, length=7, seed=1)

    np.testing.assert_array_equal(
        project(2 * HEADS[0], DIRECTIONS, length=7, seed=1), first
    )
    assert not np.allclose(project(HEADS[0], DIRECTIONS, length=7, seed=2), first)


def numbers(count=4000, **changes):
    key = {"seed": 1, "client": 2, "round": 3, "simulated": True}
    return normal_numbers(count, **key | changes)


def test_noise_has_the_deviation_of_the_calibration():
    unit = np.eye(4000)[0]
    added = blurred(unit, numbers(), epsilon=2.0, delta=1e-4) - unit
    sigma = sigma_for(epsilon=2.0, delta=1e-4)

    assert added.mean() == pytest.approx(0.0, abs=4 * sigma / 4000**0.5)
    assert added.std() == pytest.approx(sigma, rel=4 / (2 * 4000) ** 0.5)


def test_epsilon_0_adds_nothing():
    unit = np.eye(4)[0]

    np.testing.assert_array_equal(
        blurred(unit, numbers(4), epsilon=0.0, delta=1e-5), unit
    )


def test_zeros_get_noise_like_all_others():
    zeros, unit = np.zeros(4), np.eye(4)[0]
    hidden, shown = (
        blurred(start, numbers(4), epsilon=8.0, delta=1e-5) for start in (zeros, unit)
    )

    np.testing.assert_allclose(shown - hidden, unit, atol=1e-12)
    assert (hidden != 0).all()


@pytest.mark.parametrize("change", [{"seed": 9}, {"client": 9}, {"round": 9}])
def test_simulated_noise_depends_on_seed_client_and_round(change):
    np.testing.assert_array_equal(numbers(8), numbers(8))
    assert (numbers(8, **change) != numbers(8)).all()


def test_noise_on_a_device_cannot_be_repeated():
    first, second = numbers(simulated=False), numbers(simulated=False)

    assert (first != second).all()
    for found in (first, second):
        assert found.mean() == pytest.approx(0.0, abs=4 / 4000**0.5)
        assert found.std() == pytest.approx(1.0, rel=4 / (2 * 4000) ** 0.5)


def test_a_received_sketch_counts_by_its_direction_alone():
    np.testing.assert_allclose(
        received(np.array([3e20, -4e20], dtype=np.float32)), [0.6, -0.8], rtol=1e-6
    )
