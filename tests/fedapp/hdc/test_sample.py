import numpy as np
import pytest

from fedapp.hdc.sample import sample_positions


def sampled(clients, size, seed=7):
    positions = sample_positions(clients, size, seed=seed)
    assert positions.tolist() == sorted(set(positions.tolist()))
    return [clients[position] for position in positions]


def test_everyone_is_in_a_sample_that_is_large_enough():
    assert sampled([3, 5, 9], 3) == sampled([3, 5, 9], 10) == [3, 5, 9]


def test_the_order_of_clients_changes_nobody():
    clients = list(range(500))
    mixed = np.random.default_rng(0).permutation(clients).tolist()

    assert set(sampled(mixed, 50)) == set(sampled(clients, 50))


def test_clients_that_come_or_go_leave_the_others_in():
    clients = list(range(500))
    before = set(sampled(clients, 50))
    gone = {3, *sorted(before)[:5]}

    after = set(sampled([c for c in clients if c not in gone], 50))
    assert before - gone <= after
    assert len(set(sampled([*clients, *range(500, 510)], 50)) & before) >= 40


def test_seeds_differ():
    clients = list(range(500))

    assert sampled(clients, 50, seed=1) == sampled(clients, 50, seed=1)
    # 5 of 50 are common by chance, with a deviation of 2.
    assert len(set(sampled(clients, 50, seed=1)) & set(sampled(clients, 50, 2))) < 15


@pytest.mark.parametrize("step", [1, 4, 1000])
def test_clients_are_drawn_evenly(step):
    """Their mean lies within 4 standard errors of the middle, for any spacing."""
    clients = [step * k for k in range(10_000)]
    chosen = np.array(sampled(clients, 1000)) / step

    error = 10_000 / np.sqrt(12) / np.sqrt(1000)
    assert abs(chosen.mean() - 4999.5) < 4 * error
    # Four groups dealt in turn have about a quarter each: 250, deviation 13.7.
    assert np.bincount(chosen.astype(int) % 4).min() > 250 - 4 * 13.7
