"""The Gaussian mechanism of Balle and Wang 2018."""

import math
from statistics import NormalDist

import pytest

from fedapp.hdc.privacy import delta_of, epsilon_of, sigma_for

PHI = NormalDist().cdf


def theorem_8(sigma, epsilon, distance):
    """The formula, word for word; only for epsilons whose exponential is small."""
    near, far = distance / (2 * sigma), epsilon * sigma / distance
    return PHI(near - far) - math.exp(epsilon) * PHI(-near - far)


@pytest.mark.parametrize(("epsilon", "distance"), [(0.1, 1.0), (1.0, 2.0), (3.0, 0.5)])
def test_delta_is_that_of_the_theorem(epsilon, distance):
    found = delta_of(0.7, epsilon=epsilon, distance=distance)

    assert found == pytest.approx(theorem_8(0.7, epsilon, distance), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 512.0, 5000.0])
@pytest.mark.parametrize("delta", [1e-5, 0.2])
def test_the_noise_holds_its_promise_and_no_less_would(epsilon, delta):
    sigma = sigma_for(epsilon=epsilon, delta=delta)

    assert delta_of(sigma, epsilon=epsilon) <= delta
    assert delta_of(0.9999 * sigma, epsilon=epsilon) > delta


def test_epsilon_8_takes_noise_of_1_2_a_number():
    assert sigma_for(epsilon=8.0, delta=1e-5) == pytest.approx(1.2005, abs=1e-4)
    # The classical formula, wrong above epsilon 1, promises privacy that is not there.
    classical = 2 * math.sqrt(2 * math.log(1.25 / 1e-5)) / 32
    assert delta_of(classical, epsilon=32.0) > 100 * 1e-5


def test_the_noise_grows_with_the_distance_it_hides():
    near = sigma_for(epsilon=2.0, delta=1e-5, distance=1.0)

    assert sigma_for(epsilon=2.0, delta=1e-5, distance=3.0) == pytest.approx(3 * near)


def test_releases_reveal_what_one_with_less_noise_does():
    several = delta_of(2.0, epsilon=1.0, releases=9)

    assert several == pytest.approx(delta_of(2.0 / 3, epsilon=1.0))
    assert several > delta_of(2.0, epsilon=1.0)


def test_epsilon_of_one_release_is_the_one_asked_for():
    sigma = sigma_for(epsilon=8.0, delta=1e-5)
    epsilons = [epsilon_of(sigma, delta=1e-5, releases=n) for n in (1, 2, 8)]

    assert epsilons[0] == pytest.approx(8.0, rel=1e-9)
    assert epsilons[0] < epsilons[1] < epsilons[2] < 8 * 8.0
    for count, epsilon in zip((1, 2, 8), epsilons, strict=True):
        assert delta_of(sigma, epsilon=epsilon, releases=count) == pytest.approx(1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_promises_nobody_can_hold_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="epsilon above 0"):
        sigma_for(epsilon=epsilon, delta=delta)
