"""Image classifiers: an encoder and a linear head, by name.

Every model is built for the data at hand: image size, channels and classes. ``width``
multiplies the channels and units of its layers; 1 is the model as it was published.
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


def scaled(size: int, width: float) -> int:
    """Return ``size`` times ``width``, rounded, at least 1."""
    return max(1, round(size * width))


def mlp(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return a two-layer perceptron of 200 units each (McMahan et al. 2017, 2NN)."""
    pixels = image.channels * image.height * image.width
    units = scaled(200, width)
    layers = [nn.Flatten(), nn.Linear(pixels, units), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(units, units), nn.ReLU()), units


def cnn(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return the FedAvg CNN: two 5x5 convolutions (32, 64), pooling, 512 units.

    McMahan et al. 2017; with 28x28 grey images and no padding it and a head for 10
    classes have 582,026 parameters. Images below 16 pixels are padded by 2 so that
    something is left after the second pooling.
    """
    return _two_convolutions(image, width, kernel=5, channels=(32, 64), hidden=512)


def cnn_small(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return a small CNN: two 3x3 convolutions (16, 32), pooling, 64 units."""
    return _two_convolutions(image, width, kernel=3, channels=(16, 32), hidden=64)


def cnn_128(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return a CNN with padding: two 5x5 convolutions (32, 64), pooling, 128 units.

    With 28x28 grey images and a head for 10 classes it has 454,922 parameters.
    """
    return _two_convolutions(
        image, width, kernel=5, channels=(32, 64), hidden=128, padded=True
    )


def _two_convolutions(
    image: ImageShape,
    width: float,
    *,
    kernel: int,
    channels: tuple[int, int],
    hidden: int,
    padded: bool = False,
) -> tuple[nn.Module, int]:
    small = min(image.height, image.width) < 16
    padding = kernel // 2 if small or padded else 0

    def after(size: int) -> int:
        return (size + 2 * padding - kernel + 1) // 2

    rows, columns = after(after(image.height)), after(after(image.width))
    if min(rows, columns) < 1:
        raise ValueError(
            f"images of {image.height}x{image.width} pixels are too small for two "
            "convolutions with pooling; use model.name = 'mlp'"
        )
    first, second, units = (scaled(size, width) for size in (*channels, hidden))
    encoder = nn.Sequential(
        nn.Conv2d(image.channels, first, kernel, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, kernel, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * rows * columns, units),
        nn.ReLU(),
    )
    return encoder, units


def resnet18(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return torchvision's ResNet-18; up to 64 pixels with a 3x3 stem, no pooling.

    Its stages have 64, 128, 256 and 512 channels, times ``width``.
    """
    # Imported here: it takes seconds, in every worker.
    from torchvision.models.resnet import BasicBlock, ResNet

    first = scaled(64, width)

    class Scaled(ResNet):
        def _make_layer(
            self, block: type, planes: int, *rest: int, **options: int
        ) -> nn.Sequential:
            if planes == 64:
                self.inplanes = first
            channels = planes // 64 * first
            return super()._make_layer(block, channels, *rest, **options)

    net = Scaled(BasicBlock, [2, 2, 2, 2])
    net.bn1 = nn.BatchNorm2d(first)
    if max(image.height, image.width) <= 64:
        net.conv1 = nn.Conv2d(image.channels, first, 3, padding=1, bias=False)
        net.maxpool = nn.Identity()
    elif image.channels != 3 or first != 64:
        net.conv1 = nn.Conv2d(image.channels, first, 7, stride=2, padding=3, bias=False)
    net.fc = nn.Identity()
    return net, 8 * first


def mobilenet_v2(image: ImageShape, width: float) -> tuple[nn.Module, int]:
    """Return torchvision's MobileNetV2 without dropout; stem stride 1 to 64 pixels.

    Its ``width`` rounds channels to multiples of 8 and never narrows the last layer.
    """
    from torchvision.models import mobilenet_v2

    net = mobilenet_v2(weights=None, width_mult=width)
    small = max(image.height, image.width) <= 64
    if small or image.channels != 3:
        stem = net.features[0][0]
        net.features[0][0] = nn.Conv2d(
            image.channels,
            stem.out_channels,
            3,
            stride=1 if small else 2,
            padding=1,
            bias=False,
        )
    net.classifier = nn.Identity()
    return net, net.last_channel


MODELS: dict[str, Callable[[ImageShape, float], tuple[nn.Module, int]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "cnn-small": cnn_small,
    "cnn-128": cnn_128,
    "resnet18": resnet18,
    "mobilenet-v2": mobilenet_v2,
}


Change = Callable[[Classifier], None]
"""What a method does to a model that was just built, in place."""


def build(
    name: str,
    image: ImageShape,
    classes: int,
    *,
    seed: int,
    width: float = 1.0,
    projection: int = 0,
    change: Change | None = None,
) -> Classifier:
    """Return model ``name`` with weights drawn from ``seed``, and nothing else.

    With a ``projection`` a linear layer makes embeddings of that many numbers.
    ``change`` draws after all others. The same arguments give the same bits on every
    machine of one kind; the global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder, features = MODELS[name](image, width)
        if projection:
            layers = {"body": encoder, "projection": nn.Linear(features, projection)}
            encoder, features = nn.Sequential(OrderedDict(layers)), projection
        model = Classifier(encoder, features, classes)
        if change is not None:
            change(model)
        return model


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of ``model``, by name, on the CPU, copied."""
    return {
        name: leaf.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, leaf in model.state_dict().items()
    }


def load(model: nn.Module, state: Params) -> None:
    """Copy ``state`` into ``model``; names must be the same, shapes must fit."""
    model.load_state_dict(dict(state), strict=True)
