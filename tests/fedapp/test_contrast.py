import pytest
import torch

from fedapp.contrast import contrast_with_bank, distillation, supervised_contrast
from fedapp.prototypes import Bank

LABELS = torch.tensor([0, 1, 0, 1])
"""Inputs and values are those of the specification, section 19."""


@pytest.mark.parametrize(
    ("vectors", "plain", "scaled"),
    [
        ([[1.0, 0], [0, 1], [0.8, 0.6], [0.6, 0.8]], 0.870714, 6.219384),
        ([[1.0, 0], [0, 1], [1, 0], [0, 1]], 0.239545, 1.711034),
    ],
)
def test_supervised_contrast(vectors, plain, scaled):
    found = supervised_contrast(torch.tensor(vectors), LABELS, temperature=0.5)
    assert found.item() == pytest.approx(scaled, abs=1e-5)
    assert found.item() / (0.5 / 0.07) == pytest.approx(plain, abs=1e-5)


def test_large_inner_products_overflow_nothing():
    vectors = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    found = supervised_contrast(vectors, LABELS, temperature=1e-3)
    assert torch.isfinite(found)


def test_without_a_pair_of_one_class_there_is_nothing_to_contrast():
    found = supervised_contrast(torch.eye(2), torch.tensor([0, 1]), temperature=0.5)
    assert found.item() == 0


def test_prototypes_join_the_batch_as_vectors():
    features = torch.tensor([[2.0, 0], [0, 3]])
    bank = Bank(torch.tensor([[0.8, 0.6], [0.6, 0.8]]), torch.tensor([True, True]))
    found = contrast_with_bank(features, torch.tensor([0, 1]), bank, temperature=0.5)
    assert found.item() == pytest.approx(6.219384, abs=1e-5)


def test_an_unknown_prototype_is_the_samples_own_feature_without_gradient():
    features = torch.tensor([[2.0, 0], [0, 3]], requires_grad=True)
    nothing = Bank.empty(2, 2)
    found = contrast_with_bank(features, torch.tensor([0, 1]), nothing, temperature=0.5)
    assert found.item() == pytest.approx(1.711034, abs=1e-5)
    found.backward()
    # As if the same vectors had come as constants.
    given = torch.tensor([[2.0, 0], [0, 3]], requires_grad=True)
    bank = Bank(torch.eye(2), torch.tensor([True, True]))
    contrast_with_bank(given, torch.tensor([0, 1]), bank, temperature=0.5).backward()
    torch.testing.assert_close(features.grad, given.grad)
    lone = contrast_with_bank(features[:1], torch.tensor([0]), nothing, temperature=0.5)
    # One sample and its own copy: the only other vector is the right one.
    assert lone.item() == pytest.approx(0)


def test_distillation():
    soft = Bank(torch.tensor([[1.0, 1, 1], [0, 0, 0]]), torch.tensor([True, False]))
    logits = torch.tensor([[2.0, 1, 0], [9, 9, -9]])
    found = distillation(logits[:1], torch.tensor([0]), soft, temperature=5.0)
    assert found.item() == pytest.approx(0.013289, abs=1e-5)
    # A class without soft labels is left out of the mean.
    both = distillation(logits, torch.tensor([0, 1]), soft, temperature=5.0)
    assert both.item() == found.item()
    none = distillation(logits[1:], torch.tensor([1]), soft, temperature=5.0)
    assert none.item() == 0
