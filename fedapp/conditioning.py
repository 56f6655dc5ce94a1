"""Classifiers that see, beside each image, a vector s of their client.

``concat``: s stands beside the input of the first fully connected layer, which is the
head in models without another. ``film``: s scales and shifts the channels of what the
fully connected part sees (Perez et al. 2018), within bounds, so that classes and s can
interact even where the head is all there is.

The weights of s are tensors of their own, drawn after all others: those a model shares
with its plain self have the same names and the same initial bits. s is a buffer that is
in no state-dict, so that it is in no message either. It is never batch-normalised:
within a client it is constant, and batch statistics would make it 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedapp.config import SettingsError
from fedapp.models import Classifier


class Conditioned(nn.Linear):
    """A linear layer with the weights of another, for inputs that come with s."""

    s: Tensor

    def __init__(self, plain: nn.Linear, length: int) -> None:
        super().__init__(plain.in_features, plain.out_features)
        self.weight, self.bias = plain.weight, plain.bias
        self.register_buffer("s", torch.zeros(length), persistent=False)


class Concat(Conditioned):
    """``W [x; s] + b``, with the columns of W for s in ``condition`` (out, length).

    They are drawn as those of a layer of that many inputs.
    """

    def __init__(self, plain: nn.Linear, length: int) -> None:
        super().__init__(plain, length)
        bound = (plain.in_features + length) ** -0.5
        drawn = torch.empty(plain.out_features, length).uniform_(-bound, bound)
        self.condition = nn.Parameter(drawn)

    def forward(self, x: Tensor) -> Tensor:
        shift = functional.linear(self.s, self.condition)
        return functional.linear(x, self.weight, self.bias + shift)


class Film(Conditioned):
    """``W (x * (1 + tanh(A r)) + tanh(B r)) + b``, where r is s / length^(1/4).

    There is one scale and one shift for each channel of x, which has ``channels``
    blocks of equal size, one after the other. A and B start at 0: the model begins as
    its plain self. A step changes A r by the squared norm of r: with s itself, whose
    norm is about sqrt(length), and without bounds training diverged at rates that the
    plain model bears; with a norm of 1 it was slow to learn from s.
    """

    def __init__(self, plain: nn.Linear, length: int, channels: int) -> None:
        super().__init__(plain, length)
        self.scale = nn.Parameter(torch.zeros(channels, length))
        self.shift = nn.Parameter(torch.zeros(channels, length))

    def forward(self, x: Tensor) -> Tensor:
        blocks = x.unflatten(1, (len(self.scale), -1))
        r = self.s / len(self.s) ** 0.25
        scale = torch.tanh(functional.linear(r, self.scale))[:, None]
        shift = torch.tanh(functional.linear(r, self.shift))[:, None]
        seen = torch.addcmul(blocks + shift, blocks, scale)
        return functional.linear(seen.flatten(1), self.weight, self.bias)


@dataclass(frozen=True)
class Condition:
    """How long s is and how a model sees it; called with a model, makes it so."""

    length: int
    how: Literal["concat", "film"]

    def __call__(self, model: Classifier) -> None:
        """Change ``model`` in place; s is zero until it is set.

        Weights of ``concat`` are drawn from the global generator.
        """
        channels = 0
        for name, layer in list(model.named_modules()):
            if isinstance(layer, nn.Conv2d):
                channels = layer.out_channels
            if not isinstance(layer, nn.Linear):
                continue
            if self.how == "concat" or channels:
                place, _, last = name.rpartition(".")
                seeing = (
                    Concat(layer, self.length)
                    if self.how == "concat"
                    else Film(layer, self.length, channels)
                )
                setattr(model.get_submodule(place), last, seeing)
                return
            channels = layer.out_features


def layers_of(model: nn.Module) -> Iterator[Conditioned]:
    """Yield the layers of ``model`` that see s."""
    return (layer for layer in model.modules() if isinstance(layer, Conditioned))


def set_condition(model: nn.Module, s: Tensor) -> None:
    """Let ``model`` see ``s`` from now on.

    Raises
    ------
    SettingsError
        If it is not as long as the model was built for.
    """
    for layer in layers_of(model):
        if s.shape != layer.s.shape:
            raise SettingsError(
                f"the client's statistic has {s.numel()} numbers, the model takes "
                f"{layer.s.numel()}: conditional.length must be the same on the "
                "server and wherever statistics were computed"
            )
        layer.s.copy_(s)
