"""Models that see a vector of their client."""

import functools
import math

import pytest
import torch
from torch import nn

from fedapp.conditioning import Condition, layers_of, set_condition
from fedapp.config import SettingsError
from fedapp.models import MODELS, ImageShape, build, load, state_of

MNIST, TINY = ImageShape(1, 28, 28), ImageShape(3, 8, 8)
LENGTH = 32
CONCAT, FILM = (Condition(LENGTH, how) for how in ("concat", "film"))
HIDDEN = {"mlp": 200, "cnn": 512, "cnn-small": 64, "cnn-128": 128}
CHANNELS = {"mlp": 200, "cnn": 64, "cnn-small": 32, "cnn-128": 64}
CHANNELS |= {"resnet18": 512, "mobilenet-v2": 1280}


def size(model):
    return sum(leaf.numel() for leaf in model.parameters())


@functools.cache
def made(name, change, image):
    return build(name, image, 10, seed=1, change=change)


def both(name, change, image=TINY):
    """Return the plain model and the one that sees s, which is zero."""
    wide = made(name, change, image)
    set_condition(wide, torch.zeros(LENGTH))
    return made(name, None, image), wide


@pytest.mark.parametrize("name", MODELS)
def test_concatenation_adds_a_weight_for_each_number_and_unit(name):
    plain, wide = both(name, CONCAT)
    # Where no other layer is fully connected, s goes to the head: 10 units.
    assert size(wide) - size(plain) == LENGTH * HIDDEN.get(name, 10)


@pytest.mark.parametrize("name", MODELS)
def test_film_adds_a_scale_and_a_shift_for_each_number_and_channel(name):
    plain, wide = both(name, FILM)
    assert size(wide) - size(plain) == 2 * LENGTH * CHANNELS[name]


def test_the_specified_cnn_grows_by_less_than_one_per_cent():
    plain, wide = both("cnn-128", CONCAT, MNIST)
    assert size(plain) == 454_922
    assert size(wide) - size(plain) == 4_096 < 0.01 * size(plain)
    for name in ("resnet18", "mobilenet-v2"):
        plain, wide = both(name, CONCAT)
        assert size(wide) < 1.01 * size(plain)


@pytest.mark.parametrize("change", [CONCAT, FILM])
@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_shares_with_its_plain_self_is_the_same(name, change):
    plain, wide = both(name, change)
    theirs, ours = state_of(plain), state_of(wide)
    assert all(torch.equal(leaf, ours[key]) for key, leaf in theirs.items())
    images = torch.randn(2, *TINY)
    with torch.inference_mode():
        assert torch.equal(plain.eval()(images), wide.eval()(images))


@pytest.mark.parametrize("change", [CONCAT, FILM])
@pytest.mark.parametrize("name", MODELS)
def test_s_changes_what_is_said_and_is_in_no_state(name, change):
    _, wide = both(name, change)
    before_state = state_of(wide)
    filled = {k: v for k, v in before_state.items() if k.endswith((".scale", ".shift"))}
    load(wide, {**before_state, **{k: v + 0.1 for k, v in filled.items()}})
    images = torch.randn(2, *TINY)
    with torch.inference_mode():
        before = wide.eval()(images)
        set_condition(wide, torch.ones(LENGTH))
        after = wide(images)
    assert not torch.allclose(before, after)
    assert not any(key.endswith(".s") for key in state_of(wide))
    load(wide, before_state)


def test_concatenation_is_a_wider_layer_over_both():
    _, wide = both("cnn-small", CONCAT, MNIST)
    (layer,) = layers_of(wide)
    s = torch.randn(LENGTH)
    set_condition(wide, s)
    x = torch.randn(5, layer.in_features)
    joined = torch.cat([x, s.expand(5, -1)], dim=1)
    weight = torch.cat([layer.weight, layer.condition], dim=1)
    expected = nn.functional.linear(joined, weight, layer.bias)
    torch.testing.assert_close(layer(x), expected)
    # The weights of s are drawn as those of the wider layer are.
    bound = (layer.in_features + LENGTH) ** -0.5
    assert layer.condition.abs().max().item() == pytest.approx(bound, rel=0.01)


def test_film_scales_and_shifts_whole_channels():
    plain, wide = both("cnn-small", FILM, MNIST)
    (layer,) = layers_of(wide)
    s = torch.zeros(LENGTH)
    s[3] = 2.0
    with torch.no_grad():
        layer.scale[7, 3], layer.shift[9, 3] = 0.5, -1.0
    set_condition(wide, s)
    convolved = plain.encoder[:6](torch.randn(4, *MNIST))
    changed = convolved.clone()
    number = 2.0 / LENGTH**0.25
    changed[:, 7] *= 1 + math.tanh(0.5 * number)
    changed[:, 9] += math.tanh(-1.0 * number)
    expected = plain.encoder[7](changed.flatten(1))
    torch.testing.assert_close(layer(convolved.flatten(1)), expected)


def test_film_bounds_what_the_largest_weights_do():
    plain, wide = both("cnn-small", FILM, MNIST)
    (layer,) = layers_of(wide)
    with torch.no_grad():
        layer.scale[:], layer.shift[:] = 1e6, -1e6
    set_condition(wide, torch.ones(LENGTH))
    convolved = plain.encoder[:6](torch.randn(4, *MNIST))
    expected = plain.encoder[7]((2 * convolved - 1).flatten(1))
    torch.testing.assert_close(layer(convolved.flatten(1)), expected)


def test_a_batch_of_any_size_is_seen_with_the_same_s():
    _, wide = both("mlp", CONCAT, MNIST)
    set_condition(wide, torch.randn(LENGTH))
    images = torch.randn(7, *MNIST)
    with torch.inference_mode():
        together = wide(images)
        alone = torch.cat([wide(image[None]) for image in images])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("length", [1, 16, 33])
def test_a_vector_of_another_length_names_the_setting(length):
    _, wide = both("mlp", CONCAT, MNIST)
    with pytest.raises(SettingsError, match=rf"has {length} .* 32: conditional\.leng"):
        set_condition(wide, torch.zeros(length))


def test_batch_norm_would_erase_s():
    """The negative test of section 22.4: why s is never batch-normalised."""
    norm = nn.BatchNorm1d(LENGTH).train()
    found = [norm(torch.randn(LENGTH).expand(8, -1)) for _ in range(2)]
    torch.testing.assert_close(found[0], found[1], atol=1e-3, rtol=0)
    torch.testing.assert_close(found[0], torch.zeros(8, LENGTH), atol=1e-3, rtol=0)
