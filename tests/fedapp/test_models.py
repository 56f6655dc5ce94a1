import pytest
import torch

from fedapp.models import MODELS, ImageShape, build, load, state_of

CIFAR = ImageShape(3, 32, 32)


def floats(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_the_fedavg_cnn_has_its_known_size():
    assert floats(build("cnn", ImageShape(1, 28, 28), 10, seed=0)) == 582_026


@pytest.mark.parametrize(
    ("name", "encoder", "buffers", "counters", "width"),
    [
        ("resnet18", 11_168_832, 9_600, 20, 512),
        ("mobilenet-v2", 2_223_872, 34_112, 52, 1280),
    ],
)
def test_large_models_have_their_known_sizes(name, encoder, buffers, counters, width):
    model = build(name, CIFAR, 100, seed=0)
    kinds = [b for b in model.buffers()]
    assert floats(model.encoder) == encoder
    assert sum(b.numel() for b in kinds if b.is_floating_point()) == buffers
    assert sum(1 for b in kinds if not b.is_floating_point()) == counters
    assert model.head.weight.shape == (100, width)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "image", [ImageShape(1, 8, 8), ImageShape(1, 28, 28), CIFAR, ImageShape(3, 96, 96)]
)
def test_every_model_takes_every_image(name, image):
    model = build(name, image, 7, seed=0).eval()
    with torch.inference_mode():
        assert model(torch.zeros(2, *image)).shape == (2, 7)


def test_weights_depend_on_the_seed_alone_and_leave_the_global_state():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = state_of(build("cnn", CIFAR, 10, seed=5))
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    again, other = (state_of(build("cnn", CIFAR, 10, seed=s)) for s in (5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_state_is_a_copy():
    model = build("mlp", ImageShape(1, 8, 8), 3, seed=0)
    state = state_of(model)
    with torch.no_grad():
        model.head.weight.add_(1)
    assert not torch.equal(state["head.weight"], model.head.weight)


def test_loading_a_state_with_a_missing_tensor_is_refused():
    model = build("mlp", ImageShape(1, 8, 8), 3, seed=0)
    state = state_of(model)
    del state["head.bias"]
    with pytest.raises(RuntimeError, match=r"head\.bias"):
        load(model, state)


def test_too_small_images_name_a_model_that_works():
    with pytest.raises(ValueError, match="mlp"):
        build("cnn", ImageShape(1, 3, 3), 2, seed=0)
