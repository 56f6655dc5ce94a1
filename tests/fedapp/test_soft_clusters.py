"""The formulas of sections 13 and 14."""

from math import exp

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedapp.data.samples import Samples
from fedapp.soft_clusters import (
    SoftmaxMean,
    association,
    batch_losses,
    blend,
    drawn,
    importance,
    relative_importance,
)

SIGMA = 1e-4


def test_importance_is_the_share_of_samples_a_model_fits_best():
    losses = torch.tensor([[0.2, 0.9], [0.3, 0.1], [0.5, 0.6], [0.8, 0.1], [0.4, 0.45]])
    assert importance(losses, SIGMA).tolist() == pytest.approx([0.6, 0.4])


def test_a_cluster_that_fits_nobody_has_the_floor():
    losses = torch.tensor([[0.1, 0.9], [0.3, 0.4], [0.5, 0.5], [0.2, 0.3]])
    assert importance(losses, SIGMA).tolist() == pytest.approx([1.0, 1e-4])


def test_relative_importance_shares_out_each_cluster():
    v = relative_importance(np.array([[0.6, 0.4], [1.0, 1e-4]]), np.array([5, 4]))
    expected = [[0.428571, 0.9998], [0.571429, 0.0002]]
    assert v == pytest.approx(np.array(expected), abs=1e-6)


def test_a_cluster_of_no_importance_has_no_shares():
    v = relative_importance(np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([3, 2]))
    assert v.tolist() == [[0.75, 0.0], [0.25, 0.0]]


def test_draws_follow_the_chances():
    rng, chances = np.random.default_rng(0), np.array([0.1, 0.0, 0.2, 0.7])
    draws = [drawn(chances, 1, rng)[0] for _ in range(2000)]
    share = np.bincount(draws, minlength=4) / 2000
    # Four standard deviations of a share are at most 0.045.
    assert share == pytest.approx(chances, abs=0.045)
    assert share[1] == 0


def test_draws_do_not_repeat_and_are_sorted():
    rng = np.random.default_rng(1)
    for _ in range(50):
        found = drawn(np.array([0.4, 0.3, 0.2, 0.1]), 3, rng)
        assert found == sorted(set(found))
        assert len(found) == 3


def test_all_that_are_possible_are_taken_where_there_are_too_few():
    rng = np.random.default_rng(1)
    assert drawn(np.array([0.0, 0.5, 0.0, 0.5]), 3, rng) == [1, 3]
    assert drawn(np.zeros(3), 2, rng) == []


def test_a_blend_is_a_weighted_mean_of_any_scale():
    models = [{"w": torch.tensor([0.0, 0.0])}, {"w": torch.tensor([2.0, 4.0])}]
    assert blend(models, [0.6, 0.4])["w"].tolist() == pytest.approx([0.8, 1.6])
    found = blend(models, [1.0, SIGMA])["w"].tolist()
    assert found == pytest.approx([0.0002, 0.0004], abs=1e-6)
    assert blend(models, [0.0, 0.0])["w"].tolist() == [1.0, 2.0]


def test_association_by_hand():
    losses = torch.tensor([[1.0, 1.2, 0.8], [1.5, 1.1, 1.3]], dtype=torch.float64)
    best, gains = association(losses, 0.5)
    distance = (0.5**2 + 0.1**2 + 0.5**2) ** 0.5
    assert distance == pytest.approx(0.714143, abs=1e-6)
    assert (best, gains[0].item()) == (0, 1.0)
    assert gains[1].item() == pytest.approx(exp(-0.5 * distance))
    assert gains[1].item() == pytest.approx(0.699723, abs=1e-6)


def test_exactly_one_cluster_is_the_best_in_a_tie():
    losses = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    best, gains = association(losses, 0.5)
    assert best == 0
    expected = [1.0, exp(-0.5 * 2**0.5), exp(-0.5 * 8**0.5)]
    assert gains.tolist() == pytest.approx(expected)


def shares(scores):
    """Return the weights that scores give in a mean."""
    mean = SoftmaxMean()
    for row, score in zip(
        torch.eye(len(scores), dtype=torch.float64), scores, strict=True
    ):
        mean.add({"w": row}, score)
    return mean.value({})["w"].tolist()


def test_aggregation_weights_by_hand():
    assert shares([1, 0.4, 1]) == pytest.approx([0.39234, 0.215321, 0.39234], abs=1e-5)
    found = shares([0.3, 1, 0.9])
    assert found == pytest.approx([0.206788, 0.41642, 0.376792], abs=1e-5)


def test_sums_of_ten_rounds_sharpen_the_weights():
    found = shares([10, 4, 10]), shares([3, 10, 9])
    assert found[0] == pytest.approx([0.499381, 0.001238, 0.499381], abs=1e-5)
    assert found[1] == pytest.approx([0.000666, 0.730572, 0.268762], abs=1e-5)


def test_no_score_is_too_large():
    assert shares([2000.0, 2001.0, -5000.0]) == pytest.approx(
        [1 / (1 + exp(1)), exp(1) / (1 + exp(1)), 0.0]
    )


def test_equal_scores_are_a_uniform_mean_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(9, generator=generator) for _ in range(3)]
    mean = SoftmaxMean()
    for leaf in leaves:
        mean.add({"w": leaf}, 7.25)
    uniform = sum(leaf.double() for leaf in leaves) / 3
    assert torch.equal(mean.value({})["w"], uniform.float())


def test_a_mean_of_nothing_is_what_was_there():
    before = {"w": torch.ones(1)}
    assert SoftmaxMean().value(before) is before


def test_counters_take_the_maximum_when_weights_are_rescaled():
    mean = SoftmaxMean()
    for count, score in [(5, 0.0), (9, 3.0), (7, 1.0)]:
        mean.add({"n": torch.tensor(count)}, score)
    assert mean.value({})["n"].item() == 9


def test_losses_are_of_every_sample_in_order():
    generator = torch.Generator().manual_seed(0)
    images, labels = (
        torch.randn(5, 3, generator=generator),
        torch.tensor([0, 1, 2, 1, 0]),
    )
    model = nn.Identity()
    found = batch_losses(model, Samples(images, labels), 2)
    assert [len(batch) for batch in found] == [2, 2, 1]
    expected = functional.cross_entropy(images, labels, reduction="none")
    torch.testing.assert_close(torch.cat(found), expected.double())
