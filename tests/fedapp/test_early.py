import pytest
import torch
from torch import nn

from fedapp.early import early_layer, flattened, watched
from fedapp.models import MODELS, Classifier, ImageShape, build


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("mlp", 200),
        ("cnn", 64 * 4 * 4),
        # Two 3x3 convolutions and two poolings leave 5x5 of 28x28: 32 * 25.
        ("cnn-small", 32 * 5 * 5),
        ("resnet18", 64 * 4 * 4),
        ("mobilenet-v2", 24 * 4 * 4),
    ],
)
def test_how_wide_early_features_are(name, width):
    model = build(name, ImageShape(1, 28, 28), 10, seed=0).eval()
    with watched(model) as seen, torch.no_grad():
        model.encoder(torch.zeros(2, 1, 28, 28))
        assert seen[-1].shape == (2, width)
    assert not early_layer(model)._forward_hooks


def test_every_model_has_an_early_layer():
    for name in MODELS:
        early_layer(build(name, ImageShape(3, 32, 32), 10, seed=0))


def test_a_model_of_another_kind_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"no early layer .* Linear; .*early\.py"):
        early_layer(Classifier(nn.Linear(2, 2), 2, 2))


def test_maps_are_pooled_to_four_by_four_at_most():
    maps = torch.arange(64.0).reshape(1, 1, 8, 8)
    assert flattened(maps)[0, 0].item() == (0 + 1 + 8 + 9) / 4
    assert flattened(torch.ones(1, 3, 2, 2)).shape == (1, 12)
