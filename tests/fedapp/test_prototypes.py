import pytest
import torch
from torch import Tensor

from fedapp.prototype_log import angles, drift
from fedapp.prototype_parts import check_classes, counted, from_parts, to_parts
from fedapp.prototypes import (
    Bank,
    PrototypeMean,
    as_logits,
    class_means,
    class_sums,
    cosine_distances,
    squared_distances,
)

A = (torch.tensor([[1.0, 0], [3, 0]]), torch.tensor([0, 0]))
B = (torch.tensor([[0.0, 4], [0, 1], [0, 3], [0, 5]]), torch.tensor([0, 1, 1, 1]))
"""Embeddings and labels of the two clients of the specification, section 17."""


def bank(values: list[list[float]], known: list[bool] | None = None) -> Bank:
    known = known if known is not None else [True] * len(values)
    return Bank(torch.tensor(values), torch.tensor(known))


def sent(features: Tensor, labels: Tensor) -> dict[str, dict[str, Tensor]]:
    sums, counts = class_sums(features, labels, 2)
    return {**to_parts(class_means(sums, counts)), **counted(counts)}


def add(mean: PrototypeMean, reply: dict[str, dict[str, Tensor]]) -> None:
    mean.add(*(reply[part]["values"] for part in ("protos", "classes", "counts")))


def mean_of(*clients: tuple[Tensor, Tensor], weighting: str) -> PrototypeMean:
    mean = PrototypeMean(Bank.empty(2, 2), weighting)
    for client in clients:
        add(mean, sent(*client))
    return mean


@pytest.mark.parametrize(
    ("weighting", "first"), [("uniform", (1, 2)), ("count", (4 / 3, 4 / 3))]
)
def test_the_mean_of_two_clients(weighting, first):
    found = mean_of(A, B, weighting=weighting).merged(Bank.empty(2, 2))
    torch.testing.assert_close(found.values, torch.tensor([first, (0.0, 3.0)]))
    assert found.known.tolist() == [True, True]


def test_a_class_that_only_one_client_has_is_its_mean():
    found = mean_of(B, weighting="uniform").merged(Bank.empty(2, 2))
    assert found.values.tolist() == [[0, 4], [0, 3]]


def test_a_class_that_nobody_has_stays_unknown():
    found = mean_of(A, weighting="count").merged(Bank.empty(2, 2))
    assert found.known.tolist() == [True, False]
    assert found.values.tolist() == [[2, 0], [0, 0]]


def test_a_class_that_is_absent_next_round_keeps_its_prototype():
    before = mean_of(A, B, weighting="uniform").merged(Bank.empty(2, 2))
    after = mean_of(A, weighting="uniform").merged(before)
    assert after.values.tolist() == [[2, 0], [0, 3]]
    assert after.known.tolist() == [True, True]


def test_momentum_keeps_a_share_of_what_was_known():
    before = bank([[4.0, 0], [9, 9]], [True, False])
    after = mean_of(A, B, weighting="uniform").merged(before, momentum=0.75)
    # Class 0: 0.75 (4, 0) + 0.25 (1, 2); class 1 was not known before.
    assert after.values.tolist() == [[3.25, 0.5], [0, 3]]


def test_the_order_of_clients_changes_no_bit():
    generator = torch.Generator().manual_seed(0)
    # A power of two as count and short mantissas: sums are exact in float64.
    clients = [
        (torch.randn(8, 2, generator=generator), torch.arange(8) % 2) for _ in range(5)
    ]
    one = mean_of(*clients, weighting="count").merged(Bank.empty(2, 2))
    other = mean_of(*clients[::-1], weighting="count").merged(Bank.empty(2, 2))
    assert torch.equal(one.values, other.values)


def test_only_known_rows_travel_and_come_back():
    before = bank([[1.0, 2], [0, 0], [3, 4]], [True, False, True])
    parts = to_parts(before)
    assert parts["protos"]["values"].shape == (2, 2)
    assert parts["classes"]["values"].tolist() == [0, 2]
    after = from_parts(parts, 3)
    assert torch.equal(after.values, before.values)
    assert torch.equal(after.known, before.known)


def test_counts_are_of_present_classes_in_their_order():
    sums, counts = class_sums(torch.ones(3, 2), torch.tensor([2, 0, 2]), 3)
    assert sums[:, 0].tolist() == [1, 0, 2]
    assert counted(counts)["counts"]["values"].tolist() == [1, 2]


def test_the_nearest_prototype_by_distance():
    prototypes = bank([[1.0, 2], [0, 3]])
    apart = squared_distances(torch.tensor([[2.0, 1]]), prototypes)
    assert apart.tolist() == [[2, 8]]
    assert as_logits(apart).argmax(1).tolist() == [0]


def test_an_unknown_class_is_never_the_nearest_however_far_the_others():
    prototypes = bank([[0.0, 0], [9e3, 9e3], [8e3, 0]], [False, True, True])
    features = torch.tensor([[0.0, 0], [9e3, 8e3]])
    for measure in (squared_distances, cosine_distances):
        logits = as_logits(measure(features, prototypes))
        assert 0 not in logits.argmax(1).tolist()
        assert torch.isfinite(logits).all()


def test_cosine_distance_ignores_lengths():
    prototypes = bank([[2.0, 0], [0, 3], [-1, 0]])
    apart = cosine_distances(torch.tensor([[3.0, 4]]), prototypes)
    torch.testing.assert_close(apart, torch.tensor([[0.4, 0.2, 1.6]]))
    scaled = bank([[20.0, 0], [0, 3], [-7, 0]])
    assert torch.equal(apart, cosine_distances(torch.tensor([[30.0, 40]]), scaled))


def test_a_zero_prototype_has_no_direction_and_no_nan():
    apart = cosine_distances(torch.tensor([[3.0, 4]]), bank([[0.0, 0]]))
    assert apart.tolist() == [[1.0]]


def test_drift_is_relative_and_over_classes_known_before():
    before = bank([[3.0, 4], [1, 0], [0, 0]], [True, True, False])
    after = bank([[3.0, 5], [1, 0], [7, 7]])
    assert drift(before, after) == pytest.approx((1 / 5 + 0) / 2)
    assert drift(Bank.empty(3, 2), after) is None


def test_angles_are_over_pairs_of_known_classes():
    found = angles(bank([[2.0, 0], [0, 3], [-1, 0], [5, 5]], [True, True, True, False]))
    assert found == pytest.approx(((90 + 180 + 90) / 3, 90))
    assert angles(bank([[1.0, 0], [0, 1]], [True, False])) is None


def reply(**changes: Tensor) -> dict[str, dict[str, Tensor]]:
    parts = {
        "protos": torch.ones(2, 2),
        "classes": torch.tensor([0, 2], dtype=torch.int32),
        "counts": torch.tensor([3.0, 1.0]),
    }
    return {name: {"values": leaf} for name, leaf in (parts | changes).items()}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"classes": torch.tensor([0, 3])}, r"class 3; classes are 0 to 2"),
        ({"classes": torch.tensor([0, -1])}, r"class -1; classes are 0 to 2"),
        ({"classes": torch.tensor([2, 2])}, r"two prototypes of one class"),
        ({"counts": torch.tensor([3.0, -1.0])}, r"-1 samples of class 2"),
        ({"counts": torch.tensor([0.0, 1.0])}, r"0 samples of class 0"),
        ({"counts": torch.tensor([3.0])}, r"1 rows of counts for 2 classes"),
        ({"protos": torch.ones(3, 2)}, r"3 rows of protos for 2 classes"),
        ({"classes": torch.tensor([], dtype=torch.int32)}, r"no prototype"),
    ],
)
def test_replies_that_cannot_be(changes, problem):
    check_classes(reply(), 3, "protos", "counts")
    with pytest.raises(ValueError, match=problem):
        check_classes(reply(**changes), 3, "protos", "counts")
