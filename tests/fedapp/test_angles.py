"""Section 11, tests 1 to 4, and edge cases."""

import numpy as np
import pytest
import torch

from fedapp.angles import (
    angle,
    angles,
    by_first_member,
    cluster,
    leading_directions,
    nearest_cluster,
    signature,
    to_compare,
)

E1, E2, E3 = np.eye(3)
AT_30 = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0])
HALF = 2**-0.5


def columns(*vectors):
    return np.stack(vectors, axis=1)


def between(one, other, kind):
    return angle(to_compare(one, kind), to_compare(other, kind), kind)


@pytest.mark.parametrize(
    ("kind", "sign", "expected"),
    [
        ("min_elem_abs", 1, 30),
        ("min_elem_abs", -1, 30),
        ("min_elem", 1, 30),
        ("min_elem", -1, 150),
        ("principal_min", -1, 30),
    ],
)
def test_the_sign_of_a_vector_matters_to_the_raw_formula_only(kind, sign, expected):
    found = between(columns(E1), columns(sign * AT_30), kind)
    assert found == pytest.approx(expected, abs=1e-5)


def test_spans_that_meet_may_have_vectors_that_do_not():
    one, other = columns(E1, E2), columns((E1 + E2) * HALF, E3)
    assert between(one, other, "min_elem_abs") == pytest.approx(45, abs=1e-5)
    assert between(one, other, "principal_min") == pytest.approx(0, abs=1e-5)


def test_dependent_vectors_add_nothing_to_a_span():
    # QR alone would complete the basis with a direction that is in no image.
    one, other = columns(E1, E1, E1), columns(E2, E3)
    assert between(one, other, "principal_min") == pytest.approx(90, abs=1e-5)


def test_a_client_without_vectors_is_at_a_right_angle_to_all():
    nothing = np.empty((3, 0))
    for kind in ("min_elem_abs", "min_elem", "principal_min"):
        assert between(nothing, columns(E1), kind) == 90
        assert between(columns(E1), nothing, kind) == 90


def test_images_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="3 and 4 values: all clients need images"):
        angle(columns(E1), np.eye(4), "min_elem_abs")


def test_proximities_are_symmetric_with_a_zero_diagonal():
    rows = [columns(E1), columns(AT_30), columns(E3)]
    expected = [[0, 30, 90], [30, 0, 90], [90, 90, 0]]
    assert angles(iter(rows), "min_elem_abs") == pytest.approx(np.array(expected))


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6)])
def test_directions_are_those_of_the_singular_value_decomposition(shape):
    generator = torch.Generator().manual_seed(2)
    matrix = torch.randn(shape, dtype=torch.float64, generator=generator)
    found = leading_directions(matrix, 3).numpy()
    expected = np.linalg.svd(matrix.numpy())[0][:, :3]
    assert np.abs((found * expected).sum(axis=0)) == pytest.approx(np.ones(3))


def test_as_many_directions_as_there_are_different_images():
    image = torch.tensor([3.0, 4.0, 0.0], dtype=torch.float64)
    for copies in (1, 2, 7):
        found = leading_directions(torch.stack([image] * copies, dim=1), 3)
        assert found.shape == (3, 1)
        assert found[:, 0].abs().tolist() == pytest.approx([0.6, 0.8, 0.0])
    assert leading_directions(torch.zeros(3, 2, dtype=torch.float64), 3).shape == (3, 0)


def test_images_are_not_centred():
    # Two images beside each other: centred, the first direction would be (1, -1).
    matrix = torch.tensor([[5.0, 4.0], [4.0, 5.0]], dtype=torch.float64)
    found = leading_directions(matrix, 1)[:, 0].abs()
    assert found.tolist() == pytest.approx([HALF, HALF])


def test_a_signature_has_the_directions_of_each_class_present():
    pixels = torch.tensor(
        [[2.0, 0, 0], [0, 3.0, 0], [0, 1.0, 1.0], [0, 0, 0]], dtype=torch.float64
    )
    labels = torch.tensor([7, 2, 2, 5])
    found = signature(pixels, labels, 2)
    # Class 2 has two directions, class 5 only a black image, class 7 one.
    assert found.shape == (3, 3)
    assert found[:, 2].abs().tolist() == [1.0, 0.0, 0.0]
    assert found[0, :2].tolist() == [0.0, 0.0]
    assert signature(pixels, labels, 1).shape == (3, 2)


NEAR = np.array([[0, 2, 9, 10], [2, 0, 8, 11], [9, 8, 0, 3], [10, 11, 3, 0]], float)
FAR = np.array([[0, 1, 2, 8], [1, 0, 4, 10], [2, 4, 0, 12], [8, 10, 12, 0]], float)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (1, [0, 1, 2, 3]),
        (2, [0, 0, 1, 2]),
        (4.9, [0, 0, 1, 1]),
        (9.49, [0, 0, 1, 1]),
        (9.5, [0, 0, 0, 0]),
    ],
)
def test_the_cut_is_at_beta(beta, expected):
    assert cluster(NEAR, "average", beta=beta, count=0).tolist() == expected


@pytest.mark.parametrize(
    ("linkage", "height"),
    [("average", 10), ("weighted", 10.5), ("complete", 12), ("single", 8)],
)
def test_linkages_differ_in_the_last_height(linkage, height):
    below = cluster(FAR, linkage, beta=height - 0.01, count=0)
    assert below.tolist() == [0, 0, 0, 1]
    assert cluster(FAR, linkage, beta=height, count=0).tolist() == [0, 0, 0, 0]


def test_a_number_of_clusters_is_kept_whatever_beta():
    for count, expected in [(1, [0] * 4), (2, [0, 0, 1, 1]), (3, [0, 0, 1, 2])]:
        assert cluster(NEAR, "average", beta=1, count=count).tolist() == expected
    # Ties must not merge more than asked for, nor more clusters than clients exist.
    same = np.ones((3, 3)) - np.eye(3)
    assert len(set(cluster(same, "average", beta=0, count=2).tolist())) == 2
    assert cluster(same, "average", beta=0, count=9).tolist() == [0, 1, 2]


def test_a_single_client_is_one_cluster():
    assert cluster(np.zeros((1, 1)), "average", beta=5, count=0).tolist() == [0]


def test_labels_are_numbered_by_first_member():
    assert by_first_member(np.array([4, 1, 4, 9, 1])).tolist() == [0, 1, 0, 2, 1]


def test_the_nearest_cluster_is_so_on_average():
    to_members, labels = np.array([10.0, 30.0, 25.0, 19.0]), np.array([0, 0, 2, 1])
    assert nearest_cluster(to_members, labels) == (1, 19.0)
    assert nearest_cluster(np.array([10.0, 30.0, 20.0]), np.array([0, 0, 1])) == (0, 20)
