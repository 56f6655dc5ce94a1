import pytest
import torch

from fedapp.prototypes import Bank, cosine_distances
from fedapp.pseudo_labels import Thresholds, pseudo_labels, thresholds

OTHER = 1.5


def distances(*own: float, classes: int = 2, label: int = 0) -> torch.Tensor:
    table = torch.full((len(own), classes), OTHER)
    table[:, label] = torch.tensor(own)
    return table


@pytest.mark.parametrize(("quantile", "expected"), [(0.75, 0.20), (0.5, 0.10)])
def test_the_threshold_is_a_quantile(quantile, expected):
    table = distances(0.02, 0.05, 0.10, 0.20, 0.40)
    found = thresholds(table, torch.zeros(5, dtype=torch.int64), quantile=quantile)
    assert found.client == pytest.approx(expected)
    assert found.by_class.tolist() == pytest.approx([expected, expected])


def test_only_samples_nearest_to_their_own_class_count():
    table = distances(0.02, 0.05, 0.10, 0.20, 0.40)
    labels = torch.tensor([0, 0, 0, 0, 1])
    assert thresholds(table, labels, quantile=1.0).client == pytest.approx(0.20)
    assert thresholds(table, torch.ones(5).long(), quantile=1.0) is None


def test_a_class_with_five_samples_has_a_threshold_of_its_own():
    table = torch.cat([distances(*[0.1] * 5), distances(0.3, 0.3, 0.3, 0.3, label=1)])
    labels = torch.tensor([0] * 5 + [1] * 4)
    found = thresholds(table, labels, quantile=0.75)
    assert found.client == pytest.approx(0.3)
    assert found.by_class.tolist() == pytest.approx([0.1, 0.3])
    fewer = thresholds(table[1:], labels[1:], quantile=0.25)
    assert fewer.by_class.tolist() == pytest.approx([0.1, 0.1])


def test_new_thresholds_move_old_ones_by_a_tenth():
    old = Thresholds(0.5, torch.tensor([0.5, 0.1]))
    new = old.smoothed(Thresholds(0.3, torch.tensor([0.3, 0.1])))
    assert new.client == pytest.approx(0.9 * 0.5 + 0.1 * 0.3)
    assert new.by_class.tolist() == pytest.approx([0.48, 0.1])
    again = Thresholds.of_state(new.state)
    assert again.client == pytest.approx(new.client)
    assert torch.equal(again.by_class, new.by_class)


def test_each_sample_is_held_to_the_threshold_of_its_nearest_class():
    table = torch.tensor([[0.1, 0.9], [0.3, 0.9], [0.9, 0.3]])
    labels, taken = pseudo_labels(table, Thresholds(9, torch.tensor([0.2, 0.3])))
    assert labels.tolist() == [0, 0, 1]
    assert taken.tolist() == [True, False, True]


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_threshold_of_zero_accepts_nothing_not_even_a_perfect_match(value):
    table = torch.tensor([[0.0, 1.0]])
    _, taken = pseudo_labels(table, Thresholds.same(value, 2))
    assert taken.tolist() == [False]


def test_an_unknown_class_is_never_proposed():
    bank = Bank(torch.tensor([[1.0, 0], [0, 1], [9, 9]]), torch.tensor([1, 0, 1]) > 0)
    features = torch.tensor([[0.0, 1], [1, 0.1], [1, 1]])
    labels, taken = pseudo_labels(
        cosine_distances(features, bank), Thresholds.same(3.0, 3)
    )
    assert labels.tolist() == [2, 0, 2]
    assert taken.all()


def test_without_a_known_class_nothing_is_accepted():
    table = cosine_distances(torch.ones(2, 2), Bank.empty(3, 2))
    _, taken = pseudo_labels(table, Thresholds.same(3.0, 3))
    assert not taken.any()
    assert thresholds(table, torch.tensor([0, 1]), quantile=0.5) is None
