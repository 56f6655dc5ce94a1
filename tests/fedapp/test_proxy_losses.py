import pytest
import torch

from fedapp.prototypes import Bank
from fedapp.proxy_losses import alignment, cosine_softmax, proxy_anchor, proxy_nca

PROXIES = torch.tensor([[2.0, 0], [0, 3], [-1, 0]])
Z = torch.tensor([[3.0, 4]])
BATCH = (torch.tensor([[1.0, 0], [0, 1], [3, 4]]), torch.tensor([0, 1, 0]))
"""Sections 20 and 21 of the specification use these; cosines are .6, .8 and -.6."""


def bank(*known: bool, values: torch.Tensor = PROXIES) -> Bank:
    return Bank(values, torch.tensor(known or [True] * len(values)))


def label(value: int) -> torch.Tensor:
    return torch.tensor([value])


LOSSES = [
    lambda z, y, b: alignment(z, y, b),
    lambda z, y, b: cosine_softmax(z, y, b, temperature=0.5),
    lambda z, y, b: proxy_nca(z, y, b, scale=1.0, include_positive=True),
    lambda z, y, b: proxy_nca(z, y, b, scale=1.0, include_positive=False),
    lambda z, y, b: proxy_anchor(z, y, b, alpha=2.0, delta=0.1),
]
each_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.mark.parametrize(
    ("right", "temperature", "known", "expected"),
    [
        (0, 0.5, (), 0.948774),
        (1, 0.5, (), 0.548774),
        (0, 0.1, (), 2.126929),
        (0, 0.5, (True, True, False), 0.913015),
    ],
)
def test_cosine_softmax(right, temperature, known, expected):
    found = cosine_softmax(Z, label(right), bank(*known), temperature=temperature)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_alignment_is_a_mean_over_samples_and_coordinates():
    # (3 - 2)^2 + 4^2 = 17, over two coordinates.
    assert alignment(Z, label(0), bank()).item() == 8.5
    assert alignment(Z, label(0), bank(), reduction="sum").item() == 17
    uniform = Bank(torch.tensor([[1.0, 2], [0, 3]]), torch.tensor([True, True]))
    assert alignment(torch.tensor([[2.0, 1]]), label(0), uniform).item() == 1.0
    two = (torch.tensor([[3.0, 4], [2, 0]]), torch.tensor([0, 0]))
    assert alignment(*two, bank()).item() == 4.25


def test_the_whole_objective_of_fedsap():
    logits = torch.tensor([[1.0, 2, 0]])
    entropy = torch.nn.functional.cross_entropy(logits, label(0))
    align = alignment(Z, label(0), bank())
    separation = cosine_softmax(Z, label(0), bank(), temperature=0.5)
    assert entropy.item() == pytest.approx(1.407606, abs=1e-5)
    total = entropy + 0.5 * align + 0.5 * separation
    assert total.item() == pytest.approx(6.131993, abs=1e-5)


@pytest.mark.parametrize(("include", "expected"), [(False, 0.459033), (True, 0.948774)])
def test_proxy_nca(include, expected):
    found = proxy_nca(Z, label(0), bank(), scale=1.0, include_positive=include)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_proxy_nca_with_the_positive_is_a_cosine_softmax():
    nca = proxy_nca(*BATCH, bank(), scale=4.0, include_positive=True)
    torch.testing.assert_close(nca, cosine_softmax(*BATCH, bank(), temperature=1 / 8))


@pytest.mark.parametrize(
    ("alpha", "expected"), [(2.0, 0.290160 + 1.308055), (32.0, 11.759969)]
)
def test_proxy_anchor(alpha, expected):
    found = proxy_anchor(*BATCH, bank(), alpha=alpha, delta=0.1)
    assert found.item() == pytest.approx(expected, abs=2e-5)


def test_proxy_anchor_divides_the_negative_part_by_known_classes_only():
    # Without class 2 the two others have all of the negative part, over 2 not 3.
    three = proxy_anchor(*BATCH, bank(), alpha=2.0, delta=0.1).item()
    two = proxy_anchor(*BATCH, bank(True, True, False), alpha=2.0, delta=0.1).item()
    third = torch.log1p(torch.exp(2 * (torch.tensor([-1.0, 0.0, -0.6]) + 0.1)).sum())
    assert two == pytest.approx(0.290160 + (3 * 1.308055 - third.item()) / 2, abs=1e-5)
    assert two != pytest.approx(three)


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_lengths_change_nothing(loss):
    scaled = PROXIES * torch.tensor([[10.0], [0.1], [3]])
    torch.testing.assert_close(
        loss(BATCH[0] * 10, BATCH[1], bank(values=scaled)), loss(*BATCH, bank())
    )


@each_loss
def test_samples_of_unknown_classes_are_left_out_of_the_mean(loss):
    without = bank(True, False, True)
    mine = (BATCH[0][[0, 2]], BATCH[1][[0, 2]])
    torch.testing.assert_close(loss(*BATCH, without), loss(*mine, without))


@each_loss
def test_without_a_valid_sample_the_term_and_its_gradient_are_zero(loss):
    features = Z.clone().requires_grad_()
    found = loss(features, label(1), bank(True, False, True))
    found.backward()
    assert found.item() == 0
    assert features.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("loss", LOSSES[1:4])
def test_one_known_class_separates_nothing(loss):
    assert loss(Z, label(0), bank(True, False, False)).item() == 0


def test_unknown_classes_do_not_compete_with_their_zero_vectors():
    values = torch.tensor([[2.0, 0], [0, 0], [-1, 0]])
    known = bank(True, False, True, values=values)
    # cos .6 and -.6 over T = .5: log(1 + exp(-2.4)).
    found = cosine_softmax(Z, label(0), known, temperature=0.5)
    assert found.item() == pytest.approx(0.0868, abs=1e-4)


def test_gradients_reach_features_but_not_constants():
    features = Z.clone().requires_grad_()
    for loss in LOSSES:
        loss(features, label(0), bank()).backward()
    assert features.grad.abs().sum() > 0
    assert not PROXIES.requires_grad


def test_the_pull_of_alignment_grows_with_distance_and_that_of_separation_does_not():
    def pull(loss, z):
        features = z.clone().requires_grad_()
        loss(features, label(0), bank()).backward()
        return features.grad.norm().item()

    near, far = torch.tensor([[3.0, 4]]), torch.tensor([[300.0, 400]])
    # 2 ||z - P|| / d with z - P = (1, 4).
    assert pull(LOSSES[0], near) == pytest.approx(17**0.5)
    assert pull(LOSSES[0], far) > 90 * pull(LOSSES[0], near)
    for z in (near, far):
        assert pull(LOSSES[1], z) <= 2 / (0.5 * z.norm().item())
