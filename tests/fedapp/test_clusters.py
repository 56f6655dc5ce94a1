"""Where cluster models start, their means, and how well one fits a client."""

import math

import pytest
import torch
from conftest import line_model, line_task
from torch import nn

from fedapp.clusters import (
    cluster_means,
    cluster_models,
    cluster_starts,
    lowest,
    mean_loss,
)
from fedapp.data.samples import Samples
from fedapp.models import Classifier, ImageShape, build, state_of
from fedapp.params import weighted_mean

INITIAL = {"w": torch.tensor([1.0])}


def fresh(seed):
    return {"w": torch.tensor([float(seed)])}


def starts(count, **changes):
    found = cluster_starts(
        INITIAL, count, **{"seed": 7, "other_start": fresh} | changes
    )
    return [model["w"].item() for model in found]


def test_cluster_0_starts_from_the_common_model_and_no_two_alike():
    found = starts(4)
    assert found[0] == 1.0
    assert len(set(found)) == 4


def test_a_clusters_start_depends_on_seed_attempt_and_its_number_alone():
    assert starts(2) == starts(4)[:2]
    assert not set(starts(4)[1:]) & set(starts(4, seed=8)[1:])
    assert not set(starts(4)[1:]) & set(starts(4, attempt=1)[1:])


def test_drawn_models_have_the_spread_of_the_common_one():
    def draw(seed):
        return state_of(build("mlp", ImageShape(1, 8, 8), 10, seed=seed))

    common, other = cluster_starts(draw(1), 2, seed=1, other_start=draw)
    for name, leaf in common.items():
        assert not torch.equal(leaf, other[name])
        if leaf.numel() > 1000:
            assert other[name].std().item() == pytest.approx(
                leaf.std().item(), rel=0.05
            )


def test_no_clusters_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        starts(0)


def test_models_come_in_the_order_of_their_numbers():
    received = {f"cluster-{g}": fresh(g) for g in (10, 2, 0, 1, *range(3, 10))}
    assert [m["w"].item() for m in cluster_models(received)] == list(range(11))


def test_a_shared_encoder_stands_under_every_head():
    received = {"cluster-0": fresh(5), "cluster-1": fresh(6), "encoder": fresh(9)}
    first, second = cluster_models(received)
    assert first["encoder.w"].item() == second["encoder.w"].item() == 9
    assert (first["head.w"].item(), second["head.w"].item()) == (5, 6)


@pytest.mark.parametrize(
    ("losses", "choice"),
    [
        ((0.9, 0.4, 1.2), 1),
        ((0.3, 0.8, 0.7), 0),
        ((0.5, 0.5, 0.6), 0),
        ((0.2, 0.9, 0.1), 2),
        ((math.nan, 2.0), 1),
    ],
)
def test_the_lowest_loss_is_chosen_and_the_first_of_equals(losses, choice):
    assert lowest(losses) == choice


def test_a_short_last_batch_counts_by_its_size():
    # 513 samples: batches of 512 and 1. Errors 0 and 10, losses 0 and 50.
    points = [(1.0, 1.0)] * 512 + [(1.0, 11.0)]
    task = line_task(points, model=line_model())
    assert mean_loss(task) == pytest.approx(50 / 513)


def test_measuring_a_loss_moves_no_buffer():
    encoder = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model = Classifier(encoder, 3, 2).train()
    before = state_of(model)
    samples = Samples(torch.randn(8, 2), torch.zeros(8, dtype=torch.int64))
    task = line_task([(0.0, 0.0)], model=model, loss=nn.functional.cross_entropy)
    mean_loss(task, samples)
    assert all(
        torch.equal(before[name], leaf) for name, leaf in state_of(model).items()
    )
    assert before["encoder.1.num_batches_tracked"] == 0


def tree(value):
    return {"w": torch.tensor([value])}


def test_a_cluster_is_the_mean_of_its_own_replies_and_an_empty_one_stays():
    models = [tree(1.0), tree(-7.0), tree(0.5)]
    replies = [
        (tree(2.0), {0: 10}),
        (tree(6.0), {0: 30, 2: 3.0}),
        (tree(-2.0), {2: 1.0, 1: 0.0}),
    ]
    after = cluster_means(models, replies)
    expected = [(2 * 10 + 6 * 30) / 40, -7.0, (6 * 3 - 2) / 4]
    assert [m["w"].item() for m in after] == expected
    assert after[1] is models[1]


def test_one_cluster_of_all_is_the_weighted_mean_bit_for_bit():
    generator = torch.Generator().manual_seed(1)
    trees = [{"w": torch.randn(50, generator=generator)} for _ in range(3)]
    (found,) = cluster_means(
        [trees[0]], [(t, {0: n}) for t, n in zip(trees, (3, 1, 7), strict=True)]
    )
    assert torch.equal(found["w"], weighted_mean(trees, (3, 1, 7))["w"])
