from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedapp.prototypes import Bank
from fedapp.proxy_losses import alignment, cosine_softmax
from fedapp.terms import GradientProbe, Term, penalty_of

BANK = Bank(torch.tensor([[2.0, 0], [0, 3]]), torch.tensor([True, True]))
Z = torch.tensor([[3.0, 4], [0, 1]])
Y = torch.tensor([0, 1])
PULL = Term("alignment", 0.5, partial(alignment, bank=BANK))
APART = Term("separation", 2.0, partial(cosine_softmax, bank=BANK, temperature=0.5))


def test_the_penalty_is_the_weighted_sum():
    penalty = penalty_of([PULL, APART])
    expected = 0.5 * PULL.loss(Z, Y) + 2 * APART.loss(Z, Y)
    torch.testing.assert_close(penalty(Z, Z, Y), expected)


def test_terms_without_weight_are_not_computed():
    def never(features, labels):
        raise AssertionError

    off = Term("off", 0.0, never)
    assert penalty_of([off]) is None
    assert penalty_of([]) is None
    assert penalty_of([off, PULL])(Z, Z, Y) == 0.5 * PULL.loss(Z, Y)


def test_gradients_are_norms_by_sample_before_weights():
    head = nn.Linear(2, 2)
    probe = GradientProbe(head, functional.cross_entropy, [PULL])
    probe.watching(None)(Z, head(Z), Y)
    found = probe.metrics("entropy", "alignment", "separation")
    # 2 (z - P) / d with d = 2: (1, 4) and (0, -2).
    assert found["alignment-gradient"] == pytest.approx((17**0.5 + 2) / 2)
    chances = torch.softmax(head(Z), 1) - functional.one_hot(Y)
    pulls = (chances @ head.weight).norm(dim=1).mean()
    assert found["entropy-gradient"] == pytest.approx(pulls.item(), rel=1e-5)
    assert found["separation-gradient"] == 0


def test_batches_count_by_their_samples_and_only_the_first_are_measured():
    probe = GradientProbe(nn.Linear(2, 2), functional.cross_entropy, [PULL], batches=2)
    watch = probe.watching(None)
    watch(Z[:1], Z[:1], Y[:1])
    watch(Z[[1, 1, 1]], Z[[1, 1, 1]], Y[[1, 1, 1]])
    watch(100 * Z, Z, Y)
    found = probe.metrics("alignment")["alignment-gradient"]
    assert found == pytest.approx((17**0.5 + 3 * 2) / 4)


def test_the_probe_changes_neither_loss_nor_gradients():
    head, features = nn.Linear(2, 2), Z.clone().requires_grad_()
    penalty = penalty_of([PULL])
    plain = penalty(features, head(features), Y)
    watched = GradientProbe(head, functional.cross_entropy, [PULL]).watching(penalty)
    probed = watched(features, head(features), Y)
    probed.backward()
    gradient = features.grad.clone()
    features.grad = None
    plain.backward()
    assert torch.equal(plain, probed)
    assert torch.equal(gradient, features.grad)
    assert head.weight.grad is None
    assert (
        GradientProbe(head, functional.cross_entropy, []).watching(None)(Z, Z, Y) == 0
    )
