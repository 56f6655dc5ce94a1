"""Section 23.11, tests 1 and 2 and the first half of 5, and edge cases."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fedapp.hdc.heads import descriptor, gram, principal_directions

# The toy heads of 23.11: C = 3, d = 2; two clients lean on each feature.
HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]


def describe(heads, directions):
    return np.stack([descriptor(head, directions) for head in heads])


def similarity(heads, directions):
    rows = describe(heads, directions)
    return rows @ rows.T


def pairs(similarity):
    return similarity[np.triu_indices(len(similarity), 1)]


def random_heads(classes, features, clients, seed=0):
    rng = np.random.default_rng(seed)
    shape = (clients, classes, features)
    return list(rng.standard_normal(shape).astype(np.float32))


def random_rotation(size, seed=1):
    square = np.random.default_rng(seed).standard_normal((size, size))
    return np.linalg.qr(square)[0]


def test_gram_is_that_of_the_heads_side_by_side():
    stacked = np.hstack(HEADS)
    expected = [[10.08, -8.08, -2], [-8.08, 10.08, -2], [-2, -2, 4]]

    np.testing.assert_allclose(gram(iter(HEADS)), expected, atol=1e-12)
    np.testing.assert_allclose(gram(iter(HEADS)), stacked @ stacked.T, atol=1e-12)


def test_eigenvalues_are_squared_singular_values():
    found = principal_directions(gram(HEADS), energy=0.8, rank=0)
    singular = np.linalg.svd(np.hstack(HEADS), compute_uv=False)

    np.testing.assert_allclose(singular, [4.261455, 2.449490, 0], atol=1e-6)
    np.testing.assert_allclose(found.eigenvalues, [18.16, 6, 0], atol=1e-12)
    np.testing.assert_allclose(found.eigenvalues, singular**2, atol=1e-12)


def test_the_energy_rule_keeps_two_directions():
    found = principal_directions(gram(HEADS), energy=0.8, rank=0)
    alone = principal_directions(gram(HEADS), energy=0.8, rank=1)

    assert alone.energy == pytest.approx(0.751656, abs=1e-6)
    assert (found.rank, found.energy) == (2, pytest.approx(1.0))
    assert found.gap == pytest.approx(6)
    assert alone.gap == pytest.approx(18.16 - 6)


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (2, [0.993399, 0, 0.09934, -0.09934, 0, 0.993399]),
        (1, [0.991228, 0, 0.132164, -0.132164, 0, 0.991228]),
    ],
)
def test_inner_products_of_the_toy_heads(rank, expected):
    found = principal_directions(gram(HEADS), energy=0.8, rank=rank)

    np.testing.assert_allclose(
        pairs(similarity(HEADS, found.directions)), expected, atol=1e-6
    )


@pytest.mark.parametrize("rank", [1, 2])
def test_the_eigen_route_equals_the_svd_route(rank):
    eigen = principal_directions(gram(HEADS), energy=0.8, rank=rank).directions
    svd = np.linalg.svd(np.hstack(HEADS))[0][:, :rank]

    np.testing.assert_allclose(
        similarity(HEADS, eigen), similarity(HEADS, svd), atol=1e-12
    )


def test_full_rank_gives_the_inner_products_of_the_raw_heads():
    heads = random_heads(6, 5, 7)
    found = principal_directions(gram(heads), energy=0.8, rank=6)
    raw = np.stack([head.ravel().astype(float) for head in heads])
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)

    np.testing.assert_allclose(
        similarity(heads, found.directions), raw @ raw.T, atol=1e-12
    )


@pytest.mark.parametrize(
    "change", [random_rotation(4), np.diag([1.0, -1, 1, -1])], ids=["rotate", "flip"]
)
def test_rotating_the_directions_changes_no_inner_product(change):
    heads = random_heads(10, 16, 12)
    directions = principal_directions(gram(heads), energy=0.8, rank=4).directions

    np.testing.assert_allclose(
        similarity(heads, directions @ change),
        similarity(heads, directions),
        rtol=0,
        atol=1e-12,
    )


def test_streaming_equals_dense_for_many_classes():
    heads = random_heads(100, 512, 20)
    found = principal_directions(gram(iter(heads)), energy=0.8, rank=0)
    left, singular, _ = np.linalg.svd(
        np.hstack([head.astype(float) for head in heads]), full_matrices=False
    )

    np.testing.assert_allclose(found.eigenvalues, singular**2, rtol=1e-12)
    np.testing.assert_allclose(
        similarity(heads, found.directions),
        similarity(heads, left[:, : found.rank]),
        rtol=0,
        atol=1e-12,
    )


def test_order_of_heads_moves_only_rounding():
    heads = random_heads(10, 16, 12)

    np.testing.assert_allclose(gram(heads[::-1]), gram(heads), rtol=1e-12, atol=1e-12)


def test_bits_do_not_depend_on_the_number_of_threads():
    def bits(threads):
        with threadpool_limits(limits=threads):
            heads = random_heads(100, 256, 8)
            total = gram(heads)
            directions = principal_directions(total, energy=0.8, rank=0).directions
            return total, directions, describe(heads, directions)

    for one, two in zip(bits(1), bits(2), strict=True):
        np.testing.assert_array_equal(one, two)


def test_signs_are_those_of_the_largest_entries():
    heads = random_heads(10, 16, 12)
    directions = principal_directions(gram(heads), energy=1.0, rank=0).directions
    largest = np.abs(directions).argmax(axis=0)

    assert (directions[largest, np.arange(directions.shape[1])] > 0).all()


@pytest.mark.parametrize(
    ("spectrum", "energy", "rank", "kept"),
    [
        ([5, 3, 1, 1], 0.8, 0, 2),  # exactly the threshold
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 0.7, 0, 7),  # the same, with rounding
        ([5, 3, 1, 1], 0.81, 0, 3),
        ([98, 1, 1], 0.8, 0, 2),  # never fewer than two by energy
        ([98, 1, 1], 0.8, 1, 1),  # unless fixed
        ([1] * 50, 1.0, 0, 32),  # never more than 32 by energy
        ([1] * 50, 1.0, 50, 50),  # unless fixed
        ([4, 1, 1e-10, 0], 1.0, 4, 2),  # never above the numerical rank
        ([4, 0, 0], 0.8, 0, 1),
        ([0, 0, 0], 0.8, 0, 0),
    ],
)
def test_rank(spectrum, energy, rank, kept):
    found = principal_directions(
        np.diag(np.array(spectrum, dtype=float)), energy=energy, rank=rank
    )

    assert found.rank == kept
    assert found.directions.shape == (len(spectrum), kept)


def test_rounding_at_the_threshold_keeps_no_direction_more():
    heads = [np.diag(np.sqrt([5.0, 3, 1, 1]))]
    for seed in range(20):
        turn = random_rotation(4, seed)
        turned = [turn @ head for head in heads]
        assert principal_directions(gram(turned), energy=0.8, rank=0).rank == 2


def test_a_zero_head_has_no_descriptor():
    directions = principal_directions(gram(HEADS), energy=0.8, rank=0).directions

    assert descriptor(np.zeros((3, 2)), directions) is None
    # A head with equal rows is orthogonal to both directions.
    assert descriptor(np.ones((3, 2)), directions) is None


def test_descriptors_are_unit_vectors_whatever_the_scale():
    directions = principal_directions(gram(HEADS), energy=0.8, rank=0).directions
    small, large = (descriptor(scale * HEADS[1], directions) for scale in (1e-6, 1e6))

    np.testing.assert_allclose(small, large, atol=1e-12)
    assert np.linalg.norm(small) == pytest.approx(1)


def test_only_zero_heads_leave_nobody_to_group():
    directions = principal_directions(
        gram([np.zeros((3, 2))] * 4), energy=0.8, rank=0
    ).directions

    assert descriptor(np.zeros((3, 2)), directions) is None


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([], "at least one"),
        ([np.zeros((3, 2)), np.zeros((2, 3))], "one shape"),
        ([np.zeros(3)], "classes x features"),
    ],
)
def test_heads_that_cannot_be_stacked_are_refused(heads, message):
    with pytest.raises(ValueError, match=message):
        gram(heads)


def test_heads_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="finite"):
        principal_directions(gram([np.full((3, 2), np.nan)]), energy=0.8, rank=0)
