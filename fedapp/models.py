"""Image classifiers: an encoder and a linear head, by name.

Every model is built for the data at hand: image size, channels and classes.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedapp.params import Params


class ImageShape(NamedTuple):
    """Size of one image: channels, height, width."""

    channels: int
    height: int
    width: int


class Classifier(nn.Module):
    """``head(encoder(images))``; state-dict names start with ``encoder.`` or ``head.``.

    ``encoder`` maps images (n, C, H, W) to features (n, d); ``head`` is linear.
    """

    def __init__(self, encoder: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(features, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(images))


def mlp(image: ImageShape) -> tuple[nn.Module, int]:
    """Return a two-layer perceptron of 200 units each (McMahan et al. 2017, 2NN)."""
    pixels = image.channels * image.height * image.width
    layers = [nn.Flatten(), nn.Linear(pixels, 200), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(200, 200), nn.ReLU()), 200


def cnn(image: ImageShape) -> tuple[nn.Module, int]:
    """Return the FedAvg CNN: two 5x5 convolutions (32, 64), pooling, 512 units.

    McMahan et al. 2017; with 28x28 grey images and no padding it and a head for 10
    classes have 582,026 parameters. Images below 16 pixels are padded by 2 so that
    something is left after the second pooling.
    """
    return _two_convolutions(image, kernel=5, channels=(32, 64), hidden=512)


def cnn_small(image: ImageShape) -> tuple[nn.Module, int]:
    """Return a small CNN: two 3x3 convolutions (16, 32), pooling, 64 units."""
    return _two_convolutions(image, kernel=3, channels=(16, 32), hidden=64)


def _two_convolutions(
    image: ImageShape, *, kernel: int, channels: tuple[int, int], hidden: int
) -> tuple[nn.Module, int]:
    small = min(image.height, image.width) < 16
    padding = kernel // 2 if small else 0

    def after(size: int) -> int:
        return (size + 2 * padding - kernel + 1) // 2

    height, width = after(after(image.height)), after(after(image.width))
    if min(height, width) < 1:
        raise ValueError(
            f"images of {image.height}x{image.width} pixels are too small for two "
            "convolutions with pooling; use model.name = 'mlp'"
        )
    first, second = channels
    encoder = nn.Sequential(
        nn.Conv2d(image.channels, first, kernel, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, kernel, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * height * width, hidden),
        nn.ReLU(),
    )
    return encoder, hidden


def resnet18(image: ImageShape) -> tuple[nn.Module, int]:
    """Return torchvision's ResNet-18; up to 64 pixels with a 3x3 stem, no pooling."""
    # Imported here: it takes seconds, in every worker.
    from torchvision.models import resnet18

    net = resnet18(weights=None)
    if max(image.height, image.width) <= 64:
        net.conv1 = nn.Conv2d(image.channels, 64, 3, padding=1, bias=False)
        net.maxpool = nn.Identity()
    elif image.channels != 3:
        net.conv1 = nn.Conv2d(image.channels, 64, 7, stride=2, padding=3, bias=False)
    net.fc = nn.Identity()
    return net, 512


def mobilenet_v2(image: ImageShape) -> tuple[nn.Module, int]:
    """Return torchvision's MobileNetV2 without dropout; stem stride 1 to 64 pixels."""
    from torchvision.models import mobilenet_v2

    net = mobilenet_v2(weights=None)
    small = max(image.height, image.width) <= 64
    if small or image.channels != 3:
        net.features[0][0] = nn.Conv2d(
            image.channels, 32, 3, stride=1 if small else 2, padding=1, bias=False
        )
    net.classifier = nn.Identity()
    return net, 1280


MODELS: dict[str, Callable[[ImageShape], tuple[nn.Module, int]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "cnn-small": cnn_small,
    "resnet18": resnet18,
    "mobilenet-v2": mobilenet_v2,
}


def build(
    name: str, image: ImageShape, classes: int, *, seed: int, projection: int = 0
) -> Classifier:
    """Return model ``name`` with weights drawn from ``seed``, and nothing else.

    With a ``projection`` a linear layer makes embeddings of that many numbers.
    The same arguments give the same bits on every machine of one kind; the global
    random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder, features = MODELS[name](image)
        if projection:
            layers = {"body": encoder, "projection": nn.Linear(features, projection)}
            encoder, features = nn.Sequential(OrderedDict(layers)), projection
        return Classifier(encoder, features, classes)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of ``model``, by name, on the CPU, copied."""
    return {
        name: leaf.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, leaf in model.state_dict().items()
    }


def load(model: nn.Module, state: Params) -> None:
    """Copy ``state`` into ``model``; names must be the same, shapes must fit."""
    model.load_state_dict(dict(state), strict=True)
