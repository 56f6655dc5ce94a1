"""How much of the latent groups a statistic tells."""

import numpy as np
import pytest

from fedapp.statistics.recovery import by_chance, on_a_plane, recovered


def test_the_nearest_other_client_is_asked():
    rows = np.array([[0.0], [1.0], [1.4], [9.0]])
    # Nearest: 0 -> 1, 1 -> 2, 2 -> 1, 3 -> 2.
    assert recovered(rows, [5, 5, 7, 7]) == 2 / 4
    assert recovered(rows, [5, 5, 5, 5]) == 1.0


def test_equal_statistics_are_nearest_to_the_first_of_them():
    assert recovered(np.zeros((3, 2)), [0, 1, 0]) == 1 / 3


def test_one_client_has_no_neighbour():
    with pytest.raises(ValueError, match="two clients"):
        recovered(np.zeros((1, 2)), [0])


def test_chance_is_the_share_of_pairs_of_one_group():
    assert by_chance([k % 4 for k in range(20)]) == pytest.approx(4 / 19)
    assert by_chance([0, 1, 2]) == 0.0


def test_a_plane_keeps_what_lies_in_it():
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 7)) + 3
    places, kept = on_a_plane(flat)
    assert kept == pytest.approx(1.0)
    for i in range(12):
        apart = np.linalg.norm(flat[i] - flat[0])
        assert np.linalg.norm(places[i] - places[0]) == pytest.approx(apart)
    assert on_a_plane(rng.standard_normal((50, 6)))[1] < 0.8


def test_the_map_does_not_flip():
    rows = np.random.default_rng(1).standard_normal((9, 5))
    assert np.allclose(on_a_plane(rows)[0], on_a_plane(rows[::-1])[0][::-1])


@pytest.mark.parametrize("rows", [np.ones((4, 3)), np.arange(3.0)[:, None]])
def test_less_than_a_plane_is_filled_up(rows):
    places, kept = on_a_plane(rows)
    assert places.shape == (len(rows), 2)
    assert not places[:, 1].any()
    assert kept == 1.0
