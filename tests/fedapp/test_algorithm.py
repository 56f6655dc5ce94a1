from dataclasses import replace

import pytest
import torch
from conftest import half_square, line_model, line_task, normed_task

from fedapp.algorithm import local_sgd, score, seeded
from fedapp.data.samples import Samples
from fedapp.models import ImageShape, build, state_of


def test_three_steps_by_hand():
    # Loss (w - 2)^2 / 2 from w = 5: every step keeps 0.9 of the distance.
    task = line_task([(1.0, 2.0)], model=line_model(encoder=5.0), epochs=3)
    assert local_sgd(task, part="encoder") == 3
    assert task.model.encoder.weight.item() == pytest.approx(2 + 3 * 0.9**3)


def test_momentum_starts_afresh_at_every_call():
    twice = line_task([(1.0, 2.0)], model=line_model(5.0), momentum=0.9)
    local_sgd(twice, part="encoder")
    local_sgd(twice, part="encoder")
    # Without carried momentum each call is one plain step.
    assert twice.model.encoder.weight.item() == pytest.approx(2 + 3 * 0.9**2)


def test_gradient_shift_is_added_to_each_step():
    task = line_task([(1.0, 2.0)], model=line_model(5.0))
    local_sgd(
        task, part="encoder", grad_shift={"encoder.weight": torch.tensor([[4.0]])}
    )
    assert task.model.encoder.weight.item() == pytest.approx(5 - 0.1 * (3 + 4))


def test_the_penalty_sees_features_logits_and_labels():
    task = line_task([(1.0, 2.0)], model=line_model(encoder=5.0, head=3.0))
    seen = []

    def penalty(features, logits, labels):
        seen.append((features.item(), logits.item(), labels.item()))
        return features.sum() * 10

    local_sgd(task, part="encoder", penalty=penalty)
    assert seen == [(5.0, 15.0, 2.0)]
    assert task.model.encoder.weight.item() == pytest.approx(5 - 0.1 * (13 * 3 + 10))


@pytest.mark.parametrize(("part", "frozen"), [("head", "encoder"), ("encoder", "head")])
def test_the_frozen_part_keeps_every_bit_and_buffer(part, frozen):
    task = normed_task(8)
    local_sgd(task, part=part)
    after = state_of(task.model)
    for name, leaf in task.initial.items():
        assert torch.equal(leaf, after[name]) == name.startswith(frozen), name


def test_a_lone_last_sample_is_skipped_with_batch_norm():
    assert local_sgd(normed_task(9)) == 2 * 2
    assert local_sgd(normed_task(10)) == 2 * 3


def test_a_single_sample_trains_without_moving_batch_norm():
    task = normed_task(1)
    assert local_sgd(task) == 2
    after = state_of(task.model)
    assert torch.equal(
        after["encoder.norm.running_mean"], task.initial["encoder.norm.running_mean"]
    )
    assert not torch.equal(after["head.weight"], task.initial["head.weight"])


def test_a_lone_last_sample_counts_without_batch_norm():
    task = line_task([(1.0, 2.0)] * 5, batch_size=2)
    assert local_sgd(task) == 3


def test_batches_depend_on_seed_client_and_round_alone():
    task = line_task([(1.0, float(k)) for k in range(20)])

    def order(**changes):
        changed = replace(task, **changes)
        batches = changed.labelled.shuffled(5, changed.generator())
        return torch.cat([labels for _, labels in batches]).tolist()

    assert order() == order()
    assert sorted(order()) == list(range(20))
    others = [order(seed=1), order(client=1), order(round=2)]
    assert all(other != order() for other in others)


def test_generators_of_different_keys_differ():
    draws = {seeded(*key).initial_seed() for key in [(1, 2, 3), (3, 2, 1), (1, 2, 4)]}
    assert len(draws) == 3


def test_divergence_names_client_round_and_rate():
    task = line_task([(1.0, 1e30)], lr=1e20, epochs=5, client=7, round=3)
    with pytest.raises(FloatingPointError, match=r"client 7 .* round 3.*local\.lr"):
        local_sgd(task)


def test_score_weighs_a_short_last_batch_by_its_size():
    model = build("mlp", ImageShape(1, 8, 8), 3, seed=0).eval()
    images = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    samples = Samples(images, torch.arange(10) % 3)
    correct, loss = score(model, samples, batch_size=4)
    with torch.no_grad():
        logits = model(images).double()
    expected = -torch.log_softmax(logits, 1)[torch.arange(10), samples.labels].sum()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert correct == int((logits.argmax(1) == samples.labels).sum())


def test_half_square_is_what_the_hand_computations_assume():
    assert half_square(torch.tensor([[3.0]]), torch.tensor([1.0])).item() == 2.0
