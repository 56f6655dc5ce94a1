"""Section 23.11, tests 3, 5 and 6, section 23.5, and edge cases."""

import weakref

import numpy as np
import pytest
import torch

from fedapp.hdc.grouping import choose_groups, hard_memberships, memberships
from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.mixture import (
    from_second_moments,
    group_prototypes,
    group_weights,
    mix_encoders,
    mixing_matrix,
    population_prototype,
    to_second_moments,
)
from fedapp.params import tree_map, weighted_mean

HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]
LABELS = np.array([0, 0, 1, 1])
COUNTS = np.array([10, 30, 20, 20])
SCALARS = np.array([1.0, 2, 5, 7])


def toy_memberships(temperature):
    directions = principal_directions(gram(HEADS), energy=0.8, rank=0).directions
    rows = np.stack([descriptor(head, directions) for head in HEADS])
    found = choose_groups(
        range(4), rows, max_groups=8, min_silhouette=0.05, seed=0, previous={}
    )
    if temperature == 0:
        return hard_memberships(rows, found.centroids)
    return memberships(rows, found.centroids, temperature=temperature)


def tree(value):
    return {"w": torch.tensor([float(value)], dtype=torch.float64)}


def rows_of(encoders, labels=LABELS, counts=COUNTS):
    for label, count, encoder in zip(labels, counts, encoders, strict=True):
        yield int(label), float(count), encoder


def personal(encoders, soft, labels=LABELS, counts=COUNTS, mix=1.0):
    prototypes = group_prototypes(rows_of(encoders, labels, counts), soft.shape[1])
    weights = group_weights(soft, labels, counts)
    return [
        mix_encoders(prototypes, row, own, mix=mix)
        for row, own in zip(weights, encoders, strict=True)
    ]


def toy_scalars(temperature=0.5, mix=1.0):
    mixed = personal([tree(v) for v in SCALARS], toy_memberships(temperature), mix=mix)
    return [encoder["w"].item() for encoder in mixed]


def random_encoders(clients, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        {
            "conv.weight": torch.randn(8, 3, 5, generator=generator),
            "bn.running_mean": torch.randn(8, generator=generator),
            "bn.running_var": torch.rand(8, generator=generator) + 0.1,
            "bn.num_batches_tracked": torch.tensor(7 * k + 1),
        }
        for k in range(clients)
    ]


def random_groups(clients, groups, seed=0):
    rng = np.random.default_rng(seed)
    soft = rng.dirichlet(np.ones(groups), size=clients)
    labels = np.concatenate([np.arange(groups), rng.integers(groups, size=clients)])
    return soft, labels[:clients], rng.integers(1, 200, size=clients)


def dense(encoders, matrix):
    """Mix floats by the dense matrix; keep integers out of it."""
    stacked = tree_map(lambda *leaves: torch.stack(leaves).double(), *encoders)
    weights = torch.from_numpy(matrix)
    return {
        name: torch.tensordot(weights, leaf, dims=1)
        for name, leaf in stacked.items()
        if not name.endswith("tracked")
    }


def relative_error(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def test_toy_prototypes_weigh_clients_by_examples():
    groups = group_prototypes(rows_of([tree(v) for v in SCALARS]), 2)

    assert [group["w"].item() for group in groups] == [
        pytest.approx((10 * 1 + 30 * 2) / 40),
        pytest.approx((20 * 5 + 20 * 7) / 40),
    ]
    assert [group["w"].item() for group in groups] == [1.75, 6]


def test_toy_population_prototype():
    population = population_prototype(rows_of([tree(v) for v in SCALARS]))

    assert population["w"].item() == pytest.approx(3.875)


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        (1.0, [2.304313, 2.215233, 5.534767, 5.445687]),
        (0.5, [1.652156, 2.107617, 5.267383, 6.222844]),
    ],
)
def test_toy_personal_encoders(mix, expected):
    assert toy_scalars(mix=mix) == pytest.approx(expected, abs=1e-6)
    matrix = mixing_matrix(toy_memberships(0.5), LABELS, COUNTS, mix=mix)
    np.testing.assert_allclose(matrix @ SCALARS, toy_scalars(mix=mix), atol=1e-12)


def test_toy_mixing_matrix():
    soft = toy_memberships(0.5)
    matrix = mixing_matrix(soft, LABELS, COUNTS, mix=1.0)
    by_hand = [
        [soft[k, LABELS[j]] * COUNTS[j] / 40 for j in range(4)] for k in range(4)
    ]

    np.testing.assert_allclose(
        matrix[0], [0.217393, 0.65218, 0.065213, 0.065213], atol=1e-6
    )
    np.testing.assert_allclose(matrix, by_hand, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("mix", [0.0, 0.3, 1.0])
def test_streaming_equals_the_dense_matrix(mix):
    encoders = random_encoders(20)
    soft, labels, counts = random_groups(20, 4)
    matrix = mixing_matrix(soft, labels, counts, mix=mix)
    expected = dense(encoders, matrix)

    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    for k, found in enumerate(personal(encoders, soft, labels, counts, mix)):
        for name, leaf in expected.items():
            assert found[name].dtype == torch.float32
            assert relative_error(found[name], leaf[k]) < 1e-6


def test_streaming_equals_dense_for_a_hundred_classes():
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((20, 100, 512)).astype(np.float32)
    heads += 3 * heads[:3][rng.integers(3, size=20)]
    directions = principal_directions(gram(heads), energy=0.8, rank=0).directions
    rows = np.stack([descriptor(head, directions) for head in heads])
    found = choose_groups(
        range(20), rows, max_groups=8, min_silhouette=0.05, seed=0, previous={}
    )
    soft = memberships(rows, found.centroids, temperature=0.1)
    counts = rng.integers(1, 200, size=20)
    encoders = random_encoders(20)
    expected = dense(encoders, mixing_matrix(soft, found.labels, counts, mix=1.0))

    assert soft.shape[1] == 3
    for k, mixed in enumerate(personal(encoders, soft, found.labels, counts)):
        for name, leaf in expected.items():
            assert relative_error(mixed[name], leaf[k]) < 1e-6


def test_mix_zero_is_the_own_encoder():
    encoders = random_encoders(6)
    soft, labels, counts = random_groups(6, 2)

    for own, found in zip(
        encoders, personal(encoders, soft, labels, counts, 0.0), strict=True
    ):
        torch.testing.assert_close(found, own, rtol=0, atol=0)


def test_one_group_is_the_population_prototype_for_all():
    encoders = random_encoders(6)
    _, labels, counts = random_groups(6, 3)
    population = population_prototype(rows_of(encoders, labels, counts))
    alone = personal(encoders, np.ones((6, 1)), np.zeros(6, dtype=int), counts)

    torch.testing.assert_close(population, weighted_mean(encoders, counts.tolist()))
    for found in alone:
        torch.testing.assert_close(found, population, rtol=0, atol=0)


def test_small_temperature_is_the_own_group_prototype():
    assert toy_scalars(1e-6) == toy_scalars(0) == [1.75, 1.75, 6, 6]


def test_large_temperature_is_the_plain_mean_of_prototypes():
    assert toy_scalars(float("inf")) == pytest.approx([(1.75 + 6) / 2] * 4)


def test_order_of_clients_changes_only_the_order_of_rows():
    encoders = random_encoders(9)
    soft, labels, counts = random_groups(9, 3)
    order = np.random.default_rng(3).permutation(9)

    straight = personal(encoders, soft, labels, counts, 0.7)
    mixed = personal(
        [encoders[k] for k in order], soft[order], labels[order], counts[order], 0.7
    )

    for k, found in zip(order, mixed, strict=True):
        torch.testing.assert_close(found, straight[k], rtol=1e-6, atol=1e-7)


def test_examples_count_in_any_unit():
    soft, labels, counts = random_groups(9, 3)

    np.testing.assert_allclose(
        mixing_matrix(soft, labels, counts / 7, mix=0.6),
        mixing_matrix(soft, labels, counts, mix=0.6),
        atol=1e-12,
    )


def test_a_group_of_one_client_has_its_encoder():
    encoders = [tree(v) for v in SCALARS]

    groups = group_prototypes(rows_of(encoders, labels=[0, 1, 0, 0]), 2)
    assert groups[1] == encoders[1]


def test_integer_buffers_take_the_largest_contributor():
    # Clients 0 and 1 carry 1 and 8 batches, 2 and 3 carry 15 and 22.
    encoders = random_encoders(4)

    def batches(temperature, mix):
        mixed = personal(encoders, toy_memberships(temperature), mix=mix)
        counters = [encoder["bn.num_batches_tracked"] for encoder in mixed]
        assert all(counter.dtype == torch.int64 for counter in counters)
        return [counter.item() for counter in counters]

    assert batches(0.5, 1.0) == [22, 22, 22, 22]
    assert batches(0, 1.0) == [8, 8, 22, 22]
    assert batches(0.5, 0.0) == [1, 8, 15, 22]


def test_an_emptied_group_leaves_its_weight_to_the_others():
    soft = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 1.0, 0.0]])
    labels, counts = np.array([0, 1, 2]), np.array([10, 0, 30])  # 1 is too old

    weights = group_weights(soft, labels, counts)
    expected = [[5 / 7, 0, 2 / 7], [0.5, 0, 0.5], [10 / 40, 0, 30 / 40]]
    np.testing.assert_allclose(weights, expected)
    matrix = mixing_matrix(soft, labels, counts, mix=0.5)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert matrix[1].tolist() == pytest.approx([0.25, 0.5, 0.25])

    encoders = [tree(v) for v in (1, 50, 3)]
    prototypes = group_prototypes(rows_of(encoders, labels, counts), 3)
    assert prototypes[1] is None
    mixed = mix_encoders(prototypes, weights[0], encoders[0], mix=1.0)
    assert mixed["w"].item() == pytest.approx(5 / 7 * 1 + 2 / 7 * 3)


def test_weight_on_a_missing_prototype_is_refused():
    with pytest.raises(ValueError, match="must have weight 0"):
        mix_encoders([tree(1), None], np.array([0.5, 0.5]), tree(2), mix=1.0)


def test_an_own_encoder_may_be_missing_where_it_has_no_share():
    prototypes, weights = [tree(1), tree(3)], np.array([0.25, 0.75])

    mixed = mix_encoders(prototypes, weights, None, mix=1.0)
    assert mixed["w"].item() == 0.25 * 1 + 0.75 * 3
    with pytest.raises(ValueError, match=r"mix of 0\.9 needs the client's own"):
        mix_encoders(prototypes, weights, None, mix=0.9)


def test_no_counting_member_anywhere_is_refused():
    with pytest.raises(ValueError, match="positive count"):
        group_weights(np.ones((2, 1)), np.array([0, -1]), np.array([0, 5]))


def test_a_client_without_descriptor_gets_the_population_prototype():
    # Client 4 has a zero head: no label, no membership.
    labels, counts = np.append(LABELS, -1), np.append(COUNTS, 500)
    soft = np.vstack([toy_memberships(0.5), [0, 0]])
    encoders = [tree(v) for v in (*SCALARS, 1000)]

    mixed = personal(encoders, soft, labels, counts)
    assert mixed[4]["w"].item() == pytest.approx(3.875)
    assert [m["w"].item() for m in mixed[:4]] == pytest.approx(toy_scalars())
    population = population_prototype(rows_of(encoders, labels, counts))
    assert population["w"].item() == pytest.approx(3.875)
    matrix = mixing_matrix(soft, labels, counts, mix=1.0)
    np.testing.assert_allclose(
        matrix @ [*SCALARS, 1000], [m["w"].item() for m in mixed]
    )


def test_prototypes_hold_one_client_encoder_at_a_time():
    alive = []

    class Encoder(dict):
        """A dict that can be watched."""

    def stream():
        for k in range(10):
            assert sum(ref() is not None for ref in alive) <= 1
            encoder = Encoder(tree(k))
            alive.append(weakref.ref(encoder))
            yield k % 2, 1.0, encoder

    groups = group_prototypes(stream(), 2)
    assert [group["w"].item() for group in groups] == [4, 5]


def bn(mean, var, dtype=torch.float32):
    return {
        "bn.running_mean": torch.tensor([mean], dtype=dtype),
        "bn.running_var": torch.tensor([var], dtype=dtype),
        "bn.weight": torch.tensor([mean], dtype=dtype),
    }


def total_variance(encoders, soft, labels, counts, mix):
    moments = [to_second_moments(encoder) for encoder in encoders]
    return [
        from_second_moments(mixed, own)
        for mixed, own in zip(
            personal(moments, soft, labels, counts, mix), encoders, strict=True
        )
    ]


def test_variance_of_two_clients_is_linear_or_total():
    encoders = [bn(0.0, 1.0), bn(2.0, 1.0)]
    one = np.ones((2, 1)), np.zeros(2, dtype=int), np.ones(2)

    linear = personal(encoders, *one)[0]
    total = total_variance(encoders, *one, mix=1.0)[0]
    assert (linear["bn.running_var"].item(), total["bn.running_var"].item()) == (1, 2)
    assert total["bn.running_mean"].item() == total["bn.weight"].item() == 1


def test_total_variance_equals_the_formula_with_the_dense_matrix():
    encoders = random_encoders(12)
    soft, labels, counts = random_groups(12, 3)
    matrix = mixing_matrix(soft, labels, counts, mix=0.8)
    means = np.stack([e["bn.running_mean"].double().numpy() for e in encoders])
    variances = np.stack([e["bn.running_var"].double().numpy() for e in encoders])
    expected = matrix @ (variances + means**2) - (matrix @ means) ** 2

    mixed = total_variance(encoders, soft, labels, counts, 0.8)
    linear = personal(encoders, soft, labels, counts, 0.8)
    for k, (found, plain) in enumerate(zip(mixed, linear, strict=True)):
        np.testing.assert_allclose(found["bn.running_var"], expected[k], rtol=1e-6)
        for name in ("conv.weight", "bn.running_mean", "bn.num_batches_tracked"):
            torch.testing.assert_close(found[name], plain[name], rtol=0, atol=1e-6)
            assert found[name].dtype == plain[name].dtype


def test_total_variance_survives_a_large_mean():
    encoders = [bn(1000.1, 0.01), bn(1000.3, 0.03)]
    one = np.ones((2, 1)), np.zeros(2, dtype=int), np.array([1, 3])
    means, variances = (
        np.array([encoder[f"bn.running_{name}"].item() for encoder in encoders])
        for name in ("mean", "var")
    )
    between = 0.25 * 0.75 * (means[1] - means[0]) ** 2

    found = total_variance(encoders, *one, mix=1.0)[0]
    expected = 0.25 * variances[0] + 0.75 * variances[1] + between
    assert found["bn.running_var"].item() == pytest.approx(expected, rel=1e-6)


def test_rounding_makes_no_variance_negative():
    moments = bn(2.0, 4.0 - 1e-12, torch.float64)

    assert from_second_moments(moments, bn(0.0, 0.0))["bn.running_var"].item() == 0


def test_second_moments_change_only_the_statistics_and_come_back():
    encoder = random_encoders(1)[0]
    moments = to_second_moments(encoder)

    assert moments["conv.weight"] is encoder["conv.weight"]
    expected = encoder["bn.running_var"] + encoder["bn.running_mean"] ** 2
    torch.testing.assert_close(moments["bn.running_var"].float(), expected)
    back = from_second_moments(moments, encoder)
    torch.testing.assert_close(back, encoder, rtol=1e-6, atol=0)


def test_a_variance_without_a_mean_is_refused():
    with pytest.raises(ValueError, match=r"a\.running_mean"):
        to_second_moments({"a.running_var": torch.ones(2)})
