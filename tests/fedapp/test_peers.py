"""Whom a client of DAC learns from."""

from collections import Counter

import numpy as np
import pytest

from fedapp.peers import (
    draw_peers,
    probabilities,
    sharpness,
    similarity_of,
    two_hops,
)


def row(*values):
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("tau", "expected"),
    [(1, (0.628532, 0.231224, 0.140244)), (3, (0.942599, 0.046929, 0.010471))],
)
def test_probabilities_are_the_specified_soft_max(tau, expected):
    assert probabilities(row(2, 1, 0.5), tau=tau) == pytest.approx(expected, abs=1e-6)


def test_large_similarities_do_not_overflow():
    found = probabilities(row(1e6, 1e6, 1.0), tau=31)
    assert found == pytest.approx([0.5, 0.5, 0.0])


def test_sharpness_grows_from_one_to_tau_plus_one():
    found = [sharpness(t, most=30, growth=0.2) for t in (0, 1, 5, 20, 100)]
    assert found == pytest.approx([1, 3.990040, 14.863515, 29.920827, 31], abs=1e-6)


def test_a_loss_of_zero_counts_as_a_millionth():
    assert similarity_of(row(0.0, 1e-9, 0.5)) == pytest.approx([1e6, 1e6, 2.0])


def test_the_most_similar_peer_that_knows_lends_its_estimate():
    similarity, known = np.zeros((4, 4)), np.zeros((4, 4), dtype=bool)
    for i, j, value in ((0, 1, 2.0), (0, 2, 0.5), (1, 3, 1.2), (2, 3, 3.0)):
        similarity[i, j], known[i, j] = value, True
    assert two_hops(similarity, known)[0, 3] == 1.2
    similarity[1, 3] = 0.0
    assert two_hops(similarity, known)[0, 3] == 3.0


def test_what_was_measured_stays_and_nobody_is_its_own_peer():
    rng = np.random.default_rng(0)
    similarity, known = rng.random((6, 6)), rng.random((6, 6)) < 0.5
    np.fill_diagonal(known, False)
    similarity[~known] = 0.0
    found = two_hops(similarity, known)
    assert np.array_equal(found[known], similarity[known])
    assert not found.diagonal().any()
    assert (found > 0).sum() > (similarity > 0).sum()


def test_estimates_do_not_depend_on_the_numbering_of_clients():
    rng = np.random.default_rng(1)
    similarity, known = rng.random((7, 7)), rng.random((7, 7)) < 0.3
    np.fill_diagonal(known, False)
    similarity[~known] = 0.0
    order = rng.permutation(7)
    renamed = two_hops(similarity[np.ix_(order, order)], known[np.ix_(order, order)])
    assert np.array_equal(renamed, two_hops(similarity, known)[np.ix_(order, order)])


def draws(similarity, count, tau, times=2000):
    rng = np.random.default_rng(0)
    candidates = [10 * (i + 1) for i in range(len(similarity))]
    return [
        draw_peers(candidates, similarity, count=count, tau=tau, rng=rng)
        for _ in range(times)
    ]


def test_single_peers_are_drawn_by_their_probability():
    counts = Counter(peers[0] for peers in draws(row(2, 1, 0.5), 1, tau=1))
    # Deviation of a share of 2000 draws: at most sqrt(0.25 / 2000) = 0.011.
    shares = [counts[client] / 2000 for client in (10, 20, 30)]
    assert shares == pytest.approx([0.628532, 0.231224, 0.140244], abs=0.045)


def test_nobody_is_drawn_twice():
    assert all(len(set(peers)) == 3 for peers in draws(row(5, 4, 1, 0, 2), 3, tau=2))


def test_when_probabilities_vanish_the_next_most_similar_fill_up():
    similarity = row(0.0, 1e6, 50.0, 60.0)
    assert probabilities(similarity, tau=30).tolist() == [0, 1, 0, 0]
    assert set(map(tuple, draws(similarity, 3, tau=30, times=20))) == {(20, 30, 40)}


def test_few_candidates_are_all_taken():
    assert draws(row(1.0, 2.0), 5, tau=1, times=1) == [[10, 20]]
    assert draws(row(), 5, tau=1, times=1) == [[]]
