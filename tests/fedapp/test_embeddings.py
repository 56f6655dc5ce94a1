import pytest
import torch
from torch import nn

from fedapp.data.samples import Samples
from fedapp.embeddings import embedded, statistics

ROWS = torch.tensor([[1.0, 0], [3, 0], [0, 5]])
LABELS = torch.tensor([0, 0, 2])


def found(batches=((ROWS, LABELS),)):
    return statistics(iter(batches), classes=3, width=2)


def test_means_are_of_present_classes():
    means = found().means
    assert means.values.tolist() == [[2, 0], [0, 0], [0, 5]]
    assert means.known.tolist() == [True, False, True]


def test_spread_is_the_root_of_the_mean_squared_distance_to_the_class_mean():
    assert found().spread == pytest.approx(((1 + 1 + 0) / 3) ** 0.5)


def test_a_class_with_one_sample_is_that_sample_and_spreads_nothing():
    one = statistics(iter([(ROWS[2:], LABELS[2:])]), classes=3, width=2)
    assert one.means.values[2].tolist() == [0, 5]
    assert one.spread == 0


def test_batches_add_up():
    parts = found(((ROWS[:1], LABELS[:1]), (ROWS[1:], LABELS[1:])))
    assert torch.equal(parts.sums, found().sums)
    assert torch.equal(parts.counts, found().counts)


def test_other_statistics_join_with_a_weight():
    both = found().plus(found(((ROWS[1:2], LABELS[2:]),)), weight=0.5)
    # Class 2: (0, 5) once and (3, 0) half.
    assert both.means.values[2].tolist() == pytest.approx([1.5 / 1.5, 5 / 1.5])
    assert both.counts.tolist() == [2, 0, 1.5]


def test_the_pass_is_clean():
    encoder = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.9)).train()
    before = encoder[0].running_mean.clone()
    ((features, labels),) = embedded(encoder, Samples(ROWS, LABELS))
    torch.testing.assert_close(features, ROWS, rtol=1e-4, atol=1e-4)
    assert labels.tolist() == LABELS.tolist()
    assert torch.equal(encoder[0].running_mean, before)
    assert not features.requires_grad
