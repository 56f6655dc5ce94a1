"""Section 23.11, tests 3 and 6, and edge cases."""

from itertools import combinations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fedapp.hdc.grouping import (
    choose_groups,
    hard_memberships,
    k_means,
    match_groups,
    memberships,
)
from fedapp.hdc.heads import descriptor, gram, principal_directions

HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]


def describe(heads, energy=0.8):
    directions = principal_directions(gram(heads), energy=energy, rank=0).directions
    return np.stack([descriptor(head, directions) for head in heads])


def group(descriptors, clients=None, **settings):
    defaults = {"max_groups": 8, "min_silhouette": 0.05, "seed": 7, "previous": {}}
    clients = list(range(len(descriptors))) if clients is None else clients
    return choose_groups(clients, descriptors, **(defaults | settings))


def blobs(groups=3, each=6, length=12, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.repeat(np.eye(length)[:groups], each, axis=0)
    rows = centres + noise * rng.standard_normal(centres.shape) / np.sqrt(length)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mean_silhouette(rows, labels):
    """The definition, one client at a time; 0 for a client alone in its group."""
    scores = []
    for i, label in enumerate(labels):
        far = np.linalg.norm(rows - rows[i], axis=1)
        mates = [far[j] for j in range(len(rows)) if labels[j] == label and j != i]
        if not mates:
            scores.append(0.0)
            continue
        others = [far[labels == g].mean() for g in set(labels.tolist()) - {label}]
        within, nearest = np.mean(mates), min(others)
        scores.append((nearest - within) / max(nearest, within))
    return np.mean(scores)


def inertia(rows, labels):
    return sum(
        ((rows[labels == g] - rows[labels == g].mean(axis=0)) ** 2).sum()
        for g in np.unique(labels)
    )


def test_toy_heads_form_two_groups():
    rows = describe(HEADS)
    found = group(rows)

    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.silhouette == found.silhouettes[2]
    assert found.silhouettes == pytest.approx({2: 0.918654, 3: 0.458287}, abs=1e-6)
    assert found.silhouette == pytest.approx(mean_silhouette(rows, found.labels))


def test_toy_centroids_are_normalised_means():
    rows = describe(HEADS)
    means = np.stack([rows[:2].mean(axis=0), rows[2:].mean(axis=0)])
    norms = np.linalg.norm(means, axis=1)

    np.testing.assert_allclose(norms, 0.998348, atol=1e-6)
    np.testing.assert_allclose(
        group(rows).centroids, means / norms[:, None], atol=1e-12
    )


def test_toy_memberships():
    rows = describe(HEADS)
    centroids = group(rows).centroids
    near, far = 0.998348, 0.049752
    scores = np.array([[near, far], [near, -far], [-far, near], [far, near]])
    soft = [[0.869573, 0.130427], [0.890533, 0.109467]]
    soft += [[0.109467, 0.890533], [0.130427, 0.869573]]

    np.testing.assert_allclose(rows @ centroids.T, scores, atol=1e-6)
    found = memberships(rows, centroids, temperature=0.5)
    np.testing.assert_allclose(found, soft, atol=1e-6)
    by_hand = np.exp(rows @ centroids.T / 0.5)
    np.testing.assert_allclose(found, by_hand / by_hand.sum(axis=1, keepdims=True))
    sharp = memberships(rows, centroids, temperature=0.1)
    np.testing.assert_allclose(sharp[0], [0.999924, 0.000076], atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-3, 1e-12, 1e-308])
def test_small_temperature_gives_the_nearest_centroid(temperature):
    rows, centroids = describe(HEADS), group(describe(HEADS)).centroids

    found = memberships(rows, centroids, temperature=temperature)
    np.testing.assert_array_equal(found, hard_memberships(rows, centroids))
    np.testing.assert_array_equal(found, [[1, 0], [1, 0], [0, 1], [0, 1]])


@pytest.mark.parametrize("temperature", [1e9, float("inf")])
def test_large_temperature_gives_equal_memberships(temperature):
    rows = blobs()
    found = memberships(rows, group(rows).centroids, temperature=temperature)

    np.testing.assert_allclose(found, 1 / 3, atol=1e-8)


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(ValueError, match="positive"):
        memberships(np.eye(2), np.eye(2), temperature=0.0)


def test_one_group_gives_membership_one():
    rows = describe(HEADS)
    found = group(rows, max_groups=1)

    assert found.labels.tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(
        memberships(rows, found.centroids, temperature=0.1), np.ones((4, 1))
    )


def test_low_silhouette_gives_one_group_but_is_reported():
    found = group(describe(HEADS), min_silhouette=0.95)

    assert found.labels.tolist() == [0, 0, 0, 0]
    assert found.silhouette is None
    assert found.silhouettes[2] == pytest.approx(0.918654, abs=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e-9], ids=["equal", "equal up to rounding"])
def test_identical_heads_form_one_group(scale):
    rng = np.random.default_rng(0)
    head = rng.standard_normal((5, 8))
    rows = describe([head + scale * rng.standard_normal((5, 8)) for _ in range(6)])
    found = group(rows)

    assert found.labels.tolist() == [0] * 6
    assert found.silhouettes == {}


def test_rank_one_heads_form_the_groups_of_their_signs():
    column = np.array([[2.0], [-1], [-1]])
    rows = describe([scale * column @ np.ones((1, 2)) for scale in (1, 2, -1, -3)])
    found = group(rows)

    assert rows.shape == (4, 2)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.silhouettes == {2: pytest.approx(1.0, abs=1e-6)}


def test_distinct_descriptors_limit_the_number_of_groups():
    rows = np.repeat(np.eye(4)[:3], 4, axis=0)

    assert list(group(rows).silhouettes) == [2, 3]
    assert group(rows).labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize(
    ("clients", "counts"), [(1, []), (2, []), (3, [2]), (4, [2, 3])]
)
def test_there_are_fewer_groups_than_clients(clients, counts):
    assert list(group(blobs(each=3)[[0, 3, 6, 1][:clients]]).silhouettes) == counts


def test_a_group_may_have_one_client():
    rows = np.vstack([blobs(groups=2, noise=0.05), np.eye(12)[5:6]])
    found = group(rows)

    assert found.labels.tolist() == [0] * 6 + [1] * 6 + [2]
    np.testing.assert_allclose(found.centroids[2], rows[12])
    assert found.silhouette == pytest.approx(mean_silhouette(rows, found.labels))


def test_opposite_descriptors_leave_a_zero_centroid():
    found = group(np.array([[1.0, 0], [-1, 0]]))

    np.testing.assert_array_equal(found.centroids, [[0, 0]])


def test_simplex_corners_are_told_apart():
    # Every smaller count merges corners that are all equally far from each other.
    found = group(np.vstack([np.eye(4), np.eye(4)]))

    assert found.labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert found.silhouettes[4] == pytest.approx(1)


def test_ties_go_to_fewer_groups(monkeypatch):
    scores = {2: 0.3, 3: 0.5, 4: 0.5 + 1e-12, 5: 0.4}
    monkeypatch.setattr(
        "sklearn.metrics.silhouette_score", lambda _, labels: scores[max(labels) + 1]
    )

    found = group(blobs(), max_groups=5)
    assert found.silhouettes == scores
    assert (max(found.labels) + 1, found.silhouette) == (3, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_order_of_clients_changes_only_the_order_of_rows(seed):
    rows = blobs(noise=1.5, seed=seed)
    clients = [3 * k + 1 for k in range(len(rows))]
    order = np.random.default_rng(seed).permutation(len(rows))

    straight = group(rows, clients)
    mixed = group(rows[order], [clients[k] for k in order])

    np.testing.assert_array_equal(mixed.labels, straight.labels[order])
    np.testing.assert_array_equal(mixed.centroids, straight.centroids)
    assert mixed.silhouettes == straight.silhouettes
    np.testing.assert_array_equal(
        memberships(rows[order], mixed.centroids, temperature=0.1),
        memberships(rows, straight.centroids, temperature=0.1)[order],
    )


@pytest.mark.parametrize("seed", range(3))
def test_rotating_the_descriptors_changes_no_group(seed):
    rows = blobs(noise=0.8, seed=seed)
    square = np.random.default_rng(seed).standard_normal((12, 12))
    turned = rows @ np.linalg.qr(square)[0]
    flipped = rows * np.where(np.arange(12) % 3 == 0, -1, 1)

    for other in (turned, flipped):
        np.testing.assert_array_equal(group(other).labels, group(rows).labels)
        assert group(other).silhouettes == pytest.approx(group(rows).silhouettes)
        np.testing.assert_allclose(
            memberships(other, group(other).centroids, temperature=0.1),
            memberships(rows, group(rows).centroids, temperature=0.1),
            atol=1e-12,
        )


@pytest.mark.parametrize("seed", range(3))
def test_long_descriptors_are_grouped_as_they_are(seed):
    rows = blobs(length=700, noise=1.5, seed=seed)
    found = group(rows)
    for count, value in found.silhouettes.items():
        labels = k_means(rows, count, seed=7)
        assert value == pytest.approx(mean_silhouette(rows, labels), abs=1e-9)
    assert found.labels.tolist() == np.repeat(range(3), 6).tolist()
    assert found.centroids.shape == (3, 700)


def test_bits_depend_neither_on_threads_nor_on_the_run():
    # More rows than the 256 that scikit-learn gives to one thread at a time.
    rows = blobs(groups=4, each=150, length=40, noise=2.0)
    results = []
    for threads in (1, 2, 2):
        with threadpool_limits(limits=threads):
            results.append(group(rows, max_groups=4))

    for other in results[1:]:
        np.testing.assert_array_equal(other.labels, results[0].labels)
        np.testing.assert_array_equal(other.centroids, results[0].centroids)
        assert other.silhouettes == results[0].silhouettes


def test_k_means_finds_the_partition_of_lowest_inertia():
    rows = blobs(groups=2, each=4, noise=2.0)
    best = min(
        inertia(rows, np.isin(np.arange(8), chosen).astype(int))
        for size in (1, 2, 3, 4)
        for chosen in combinations(range(8), size)
    )

    assert inertia(rows, k_means(rows, 2, seed=0)) == pytest.approx(best)


def test_a_worse_start_is_not_used():
    rows = blobs(groups=2, each=4, noise=0.1)
    bad = np.stack([rows[0], rows[1]])

    labels = k_means(rows, 2, seed=0, start=bad)
    assert inertia(rows, labels) == pytest.approx(inertia(rows, [0] * 4 + [1] * 4))


def test_the_previous_groups_win_a_tie():
    # A square splits into two pairs in two ways with equal inertia.
    square = np.array([[1.0, 1], [1, -1], [-1, -1], [-1, 1]]) / np.sqrt(2)
    for previous in ([0, 0, 1, 1], [0, 1, 1, 0]):
        found = group(
            square, max_groups=2, previous=dict(enumerate(np.array(previous) + 5))
        )
        assert found.labels.tolist() == previous


def test_previous_groups_without_a_client_are_seeded_anew():
    rows = blobs(groups=2, noise=0.1)
    previous = {0: 4, 1: 4, 99: 8}

    assert group(rows, previous=previous).labels.tolist() == [0] * 6 + [1] * 6
    assert group(rows, previous={98: 4, 99: 8}).labels.tolist() == [0] * 6 + [1] * 6


def test_a_previous_group_without_a_client_starts_at_the_farthest_row(monkeypatch):
    # A square, split either way with equal inertia, and a row far from it that takes
    # the place of the group whose client is gone.
    monkeypatch.setattr(
        "sklearn.metrics.silhouette_score", lambda _, labels: float(max(labels))
    )
    square = np.array([[1.0, 1], [1, -1], [-1, -1], [-1, 1]]) / np.sqrt(2)
    rows = np.vstack([np.c_[square, np.zeros(4)], [[0, 0, 5]]])
    for before in ([0, 0, 1, 1], [0, 1, 1, 0]):
        previous = dict(enumerate(before)) | {99: 2}
        found = group(rows, max_groups=3, previous=previous)
        assert found.labels.tolist() == [*before, 2]


def test_matching_keeps_ids_by_overlap():
    previous = {0: 5, 1: 5, 2: 9, 3: 9, 4: 9, 7: 5}
    labels = {0: 1, 1: 1, 2: 0, 3: 0, 4: 1, 5: 0}

    assert match_groups(labels, previous, next_id=10) == (9, 5)


def test_matching_maximises_the_total_overlap():
    # Greedy would give group 0 the id 1 (3 clients) and leave 0 for group 1.
    previous = dict(enumerate([1, 1, 1, 2, 2, 1, 1]))
    labels = dict(enumerate([0, 0, 0, 0, 0, 1, 1]))

    assert match_groups(labels, previous, next_id=3) == (2, 1)


def test_a_new_group_gets_a_new_id():
    labels = {0: 0, 1: 0, 2: 1, 3: 2}

    assert match_groups(labels, {0: 3, 1: 3}, next_id=6) == (3, 6, 7)
    assert match_groups(labels, {}, next_id=0) == (0, 1, 2)
    # A previous group without a common client hands its id to nobody.
    assert match_groups({0: 0, 1: 1}, {0: 3, 8: 4}, next_id=6) == (3, 6)


@pytest.mark.parametrize("clients", [[0, 0], [0], [0, 1, 2]])
def test_clients_that_do_not_fit_the_rows_are_refused(clients):
    with pytest.raises(ValueError, match="one row per client"):
        group(np.eye(2), clients)
