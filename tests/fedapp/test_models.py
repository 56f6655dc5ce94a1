import pytest
import torch

from fedapp.models import MODELS, ImageShape, build, load, scaled, state_of

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


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_at_width_one_large_models_are_torchvisions_bit_for_bit(name):
    from torchvision import models

    torch.manual_seed(3)
    theirs = getattr(models, name)(weights=None).state_dict()
    image = ImageShape(3, 96, 96)
    ours = state_of(build(name.replace("_", "-"), image, 10, seed=3).encoder)
    assert ours.keys() == {n for n in theirs if not n.startswith(("fc", "classifier"))}
    assert all(torch.equal(leaf, theirs[n]) for n, leaf in ours.items())


def test_width_multiplies_the_channels_of_every_stage():
    narrow = state_of(build("resnet18", CIFAR, 10, seed=0, width=0.125))
    usual = state_of(build("resnet18", CIFAR, 10, seed=0))
    assert narrow.keys() == usual.keys()
    for name, leaf in usual.items():
        # The image's channels and the classes are not the model's own.
        kept = {"encoder.conv1.weight": 1, "head.weight": 0, "head.bias": 0}.get(name)
        sizes = [n if i == kept else n // 8 for i, n in enumerate(leaf.shape)]
        if name.endswith("conv1.weight") or "conv2" in name or "downsample.0" in name:
            sizes[2:] = leaf.shape[2:]
        assert list(narrow[name].shape) == sizes, name


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("mlp", 20),
        ("cnn", 51),
        ("cnn-small", 6),
        ("resnet18", 48),
        ("mobilenet-v2", 1280),
    ],
)
def test_every_model_has_a_width(name, features):
    model = build(name, ImageShape(1, 28, 28), 10, seed=0, width=0.1).eval()
    assert model.head.in_features == features
    assert floats(model) < floats(build(name, ImageShape(1, 28, 28), 10, seed=0))
    with torch.inference_mode():
        assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_a_layer_is_never_without_channels():
    assert [scaled(16, width) for width in (0.001, 0.1, 1.0, 1.5)] == [1, 2, 16, 24]


def test_the_width_reaches_server_and_clients(run):
    done = run("fedper", model__width=0.1, rounds__count=1)
    params = done.tensors("final/params.safetensors")["params"]
    assert params["1.weight"].shape == (20, 64)
    memory = next((done.path / "memory").rglob("*.safetensors"))
    assert done.tensors(str(memory))["head"]["weight"].shape == (10, 20)


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
