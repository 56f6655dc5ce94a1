"""Groups of many clients: 23.3 e to h on a sample, by mini-batches and projections."""

import numpy as np
import pytest
from planted import describe, match, planted, store

from fedapp.hdc import many, settling, trial
from fedapp.hdc.blocks import LENGTH, projection
from fedapp.hdc.grouping import choose_groups, memberships
from fedapp.hdc.heads import descriptor
from fedapp.hdc.many import group_many
from fedapp.hdc.sample import sample_positions
from fedapp.hdc.settling import means_of, settle, sums_of
from fedapp.hdc.trial import mini_batch, silhouette_of

WIDE = {"shape": (6, 60), "noise": 1.5}
"""Descriptors of some 240 numbers, which are long enough to be projected."""


SAMPLE = 200


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch):
    """Everything is as with thousands of clients, and fast."""
    monkeypatch.setattr(many, "EXACT", SAMPLE)


def grouped(heads, clients=None, **changes):
    options = {"max_groups": 8, "min_silhouette": 0.01, "temperature": 0.1, "seed": 7}
    return group_many(
        describe(store(heads, clients)), **{**options, "previous": {}, **changes}
    )


def dense(descriptors):
    return np.concatenate([rows for _, rows in descriptors.blocks()])


@pytest.fixture
def projected(monkeypatch):
    monkeypatch.setattr(many, "DENSE", 0)


@pytest.mark.parametrize("groups", [2, 4, 7])
def test_the_sampled_path_recovers_planted_groups(groups):
    heads, labels = planted(600, groups=groups)
    found = grouped(heads)

    assert not found.projected
    assert match(found.grouping.labels, labels) == 1
    assert len(found.sample) == SAMPLE


@pytest.mark.parametrize("groups", [2, 4, 7])
def test_the_projected_path_recovers_planted_groups(projected, groups):
    heads, labels = planted(600, groups=groups, **WIDE)
    found = grouped(heads)

    assert found.projected
    assert match(found.grouping.labels, labels) == 1


def test_settling_repairs_what_a_projection_blurs(projected):
    """Noise that leads many clients astray on projections alone."""
    heads, labels = planted(500, shape=(6, 120), noise=4.0)
    descriptors = describe(store(heads))
    short = dense(descriptors) @ projection(descriptors.length, seed=7)

    blurred = mini_batch(short, np.arange(SAMPLE), 4, seed=7)
    assert 0.3 < match(blurred, labels) < 0.9
    assert match(grouped(heads, min_silhouette=0).grouping.labels, labels) > 0.95


def test_with_everyone_in_the_sample_it_is_the_exact_result():
    heads, _ = planted(SAMPLE, noise=1.0)
    rows = store(heads)
    directions = describe(rows).directions
    described = np.stack([descriptor(head, directions) for head in heads])
    exact = choose_groups(
        range(SAMPLE), described, max_groups=8, min_silhouette=0.01, seed=7, previous={}
    )
    found = grouped(heads)

    np.testing.assert_array_equal(found.grouping.labels, exact.labels)
    np.testing.assert_allclose(found.grouping.centroids, exact.centroids, atol=1e-12)
    assert found.grouping.silhouette == pytest.approx(exact.silhouette, abs=1e-9)
    assert found.grouping.silhouettes.keys() == exact.silhouettes.keys()
    soft = memberships(described, exact.centroids, temperature=0.1)
    np.testing.assert_allclose(found.soft, soft, atol=1e-9)
    np.testing.assert_allclose(found.similarity, described @ described.T, atol=1e-12)


@pytest.mark.parametrize("wide", [False, True])
def test_the_order_in_which_clients_are_read_changes_no_bit(monkeypatch, wide):
    monkeypatch.setattr(many, "DENSE", 0 if wide else many.DENSE)
    heads, _ = planted(500, **WIDE)
    clients = np.arange(500) * 3 + 1
    order = np.random.default_rng(1).permutation(500)

    straight = grouped(heads, clients.tolist())
    mixed = grouped(heads[order], clients[order].tolist())
    assert straight.projected is wide
    for name in ("labels", "centroids"):
        np.testing.assert_array_equal(
            getattr(mixed.grouping, name), getattr(straight.grouping, name)
        )
    for name in ("positions", "soft", "sample", "similarity"):
        np.testing.assert_array_equal(getattr(mixed, name), getattr(straight, name))
    assert mixed.grouping.silhouettes == straight.grouping.silhouettes


def test_groups_are_numbered_by_their_first_client():
    heads, labels = planted(600)
    found = grouped(heads).grouping.labels

    first = [int(np.flatnonzero(found == g)[0]) for g in range(4)]
    assert first == sorted(first)
    assert found[0] == 0
    # So they are those planted, up to names.
    assert len({(int(a), int(b)) for a, b in zip(found, labels, strict=True)}) == 4


def test_heads_without_groups_are_one_group():
    heads, _ = planted(600, groups=1, noise=2.0)
    found = grouped(heads, min_silhouette=0.2)

    assert found.grouping.labels.tolist() == [0] * 600
    assert found.grouping.silhouette is None
    mean = dense(describe(store(heads))).mean(axis=0)
    expected = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(found.grouping.centroids[0], expected, atol=1e-12)
    assert found.grouping.silhouettes[2] < 0.2


def test_identical_heads_are_one_group():
    found = grouped(np.repeat(planted(1)[0], 600, axis=0))

    assert found.grouping.labels.tolist() == [0] * 600
    assert found.grouping.silhouettes == {}


def test_a_group_that_the_sample_does_not_see_is_none():
    heads, labels = planted(600, groups=2, noise=0.1)
    outside = np.setdiff1d(np.arange(600), sample_positions(range(600), SAMPLE, seed=7))
    heads[outside[:3]] = 5 * np.eye(5, 8)
    found = grouped(heads)

    kept = np.setdiff1d(np.arange(600), outside[:3])
    assert match(found.grouping.labels[kept], labels[kept]) == 1
    assert len(found.grouping.centroids) == 2


def test_no_silhouette_is_made_up_for_groups_the_sample_does_not_see():
    apart = np.array([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]])
    labels = np.array([0, 0, 1])

    # By hand: (2 - 1) / 2, (3 - 1) / 3 and, alone in its group, 0.
    assert silhouette_of(apart, labels, 2) == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert silhouette_of(apart, labels * 2, 3) is None
    assert silhouette_of(apart, np.arange(3), 3) is None


def test_a_head_without_a_direction_is_left_out():
    heads, labels = planted(600)
    heads[[0, 300]] = 0
    found = grouped(heads)

    assert found.positions.tolist() == [k for k in range(600) if k not in (0, 300)]
    assert match(found.grouping.labels, labels[found.positions]) == 1
    assert len(found.soft) == 598


def test_zero_heads_alone_are_refused():
    with pytest.raises(ValueError, match="no client has a head with a direction"):
        grouped(np.zeros((600, 5, 8)))


def test_memberships_and_centroids_are_of_the_descriptors_themselves(projected):
    heads, _ = planted(300, **WIDE)
    found = grouped(heads)
    rows, labels = dense(describe(store(heads))), found.grouping.labels

    means = np.stack([rows[labels == g].mean(axis=0) for g in range(4)])
    centroids = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(found.grouping.centroids, centroids, atol=1e-12)
    by_hand = np.exp(rows @ centroids.T / 0.1)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.soft, by_hand, atol=1e-9)


def test_silhouettes_of_projected_clients_are_of_the_descriptors_themselves(projected):
    from sklearn.metrics import silhouette_score

    heads, _ = planted(300, **WIDE)
    found = grouped(heads)
    rows = dense(describe(store(heads)))[found.sample]

    expected = silhouette_score(rows, found.grouping.labels[found.sample])
    assert found.grouping.silhouette == pytest.approx(expected, abs=1e-9)


def test_the_groups_before_win_a_tie():
    """A square of heads splits either way with equal inertia."""
    corners = np.array([[1.0, 1], [1, -1], [-1, -1], [-1, 1]]) / np.sqrt(2)
    rows = np.tile(corners, (300, 1))
    for pairs in ([0, 0, 1, 1], [0, 1, 1, 0]):
        start = np.stack([corners[np.array(pairs) == g].mean(axis=0) for g in (0, 1)])
        found = mini_batch(rows, np.arange(100), 2, seed=0, start=start)
        assert found[:4].tolist() == pairs


def test_groups_of_the_refresh_before_are_a_start(monkeypatch):
    starts = []

    def watched(rows, sample, groups, *, seed, start=None):
        starts.append(None if start is None else start.shape)
        return mini_batch(rows, sample, groups, seed=seed, start=start)

    monkeypatch.setattr(trial, "mini_batch", watched)
    heads, labels = planted(500)
    previous = {client: 10 + int(label) for client, label in enumerate(labels)}
    grouped(heads, previous=previous, max_groups=5)

    length = describe(store(heads)).length
    assert starts == [None, None, (4, length), None]


def settled(descriptors, labels):
    """Settle from labels; every one of their groups has a client."""
    start = sums_of(dense(descriptors), labels, int(labels.max()) + 1)
    return settle(descriptors, labels, means_of(labels, start))


def test_settling_ends_where_lloyds_steps_end():
    heads, labels = planted(900, noise=0.3)
    descriptors = describe(store(heads))
    astray = labels.copy()
    astray[::5] = 0

    found, sums = settled(descriptors, astray)
    np.testing.assert_array_equal(found, labels)
    rows = dense(descriptors)
    expected = np.stack([rows[labels == g].sum(axis=0) for g in range(4)])
    np.testing.assert_allclose(sums, expected, atol=1e-9)
    np.testing.assert_allclose(sums_of(rows, labels, 4), expected, atol=1e-9)


def test_settling_goes_on_while_clients_change_groups(monkeypatch):
    passes, step = [], settling._step
    monkeypatch.setattr(settling, "_step", lambda *of: passes.append(1) or step(*of))
    heads, labels = planted(900, noise=0.3)
    descriptors = describe(store(heads))

    settled(descriptors, labels)
    assert len(passes) == 1
    settled(descriptors, np.where(np.arange(900) % 5 == 0, 0, labels))
    assert len(passes) == 3


def test_a_group_may_empty_while_settling():
    # Two groups on one point and one on another; the third has a mean between.
    heads = np.concatenate([np.tile(np.eye(2, 3), (3, 1, 1))] * 2)
    heads[3:] = -heads[3:, ::-1]
    descriptors = describe(store(heads))
    found, sums = settled(descriptors, np.array([0, 0, 2, 1, 1, 2]))

    assert found.tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(sums[2], 0)
    means = means_of(found, sums)
    assert np.isinf(means[2]).all()
    again, _ = settle(descriptors, found, means)
    assert again.tolist() == found.tolist()


def test_descriptors_come_as_from_one_head_at_a_time():
    """C = 100, d = 512 and float32 as in 23.11, test 5."""
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((20, 100, 512)).astype(np.float32)
    descriptors = describe(store(heads))
    one_by_one = np.stack([descriptor(head, descriptors.directions) for head in heads])

    rows = dense(descriptors)
    np.testing.assert_allclose(rows @ rows.T, one_by_one @ one_by_one.T, atol=1e-12)
    places = np.concatenate([where for where, _ in descriptors.blocks()])
    assert places.tolist() == list(range(20))


def test_projections_keep_inner_products_on_average():
    """The mean over seeds lies within 4 standard errors; their spread is 1 / 128."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 300))
    left, right = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    products = [
        (left @ matrix) @ (right @ matrix)
        for matrix in (projection(300, seed=seed) for seed in range(400))
    ]

    exact = left @ right
    deviation = np.sqrt((1 + exact**2) / LENGTH)
    assert np.mean(products) == pytest.approx(exact, abs=4 * deviation / 20)
    assert np.std(products) == pytest.approx(deviation, rel=0.15)


def test_short_descriptors_are_never_projected(projected):
    heads, _ = planted(300)

    assert describe(store(heads)).length <= LENGTH
    assert not grouped(heads).projected


def test_few_numbers_are_not_projected(monkeypatch):
    heads, _ = planted(300, **WIDE)
    numbers = 300 * describe(store(heads)).length
    for limit, wide in ((numbers, False), (numbers - 1, True)):
        monkeypatch.setattr(many, "DENSE", limit)
        assert grouped(heads).projected is wide
