"""Learned proxies, and other things put on a model for the time of training."""

import torch
from torch import Tensor, nn

from fedapp.models import Classifier
from fedapp.prototypes import Bank

FACTOR = 10.0
"""Root of how much faster proxies learn than the rest (Proxy-Anchor's code: 100)."""


class View(Classifier):
    """An encoder and a head that belong to other modules, as a classifier."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        nn.Module.__init__(self)
        self.encoder = encoder
        self.head = head  # type: ignore[assignment]


class Scaled(nn.Module):
    """Features times a constant."""

    def __init__(self, encoder: nn.Module, scale: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.scale = scale

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * self.encoder(images)


class ProxyHead(nn.Module):
    """A linear head that carries learned proxies (C, d) beside its weights.

    What is trained is ``proxies / FACTOR``: under plain SGD, with momentum too, its
    step moves the proxies ``FACTOR ** 2`` times as far.
    """

    def __init__(self, linear: nn.Module, proxies: Tensor) -> None:
        super().__init__()
        self.linear = linear
        self.root = nn.Parameter(proxies / FACTOR)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(features)

    @property
    def bank(self) -> Bank:
        """The proxies as a bank that knows all classes and has gradients."""
        known = torch.ones(len(self.root), dtype=torch.bool, device=self.root.device)
        return Bank(self.root * FACTOR, known)


def initial_proxies(classes: int, width: int, generator: torch.Generator) -> Tensor:
    """Return proxies as Proxy-Anchor's code draws them: Kaiming-normal, fan out."""
    proxies = torch.empty(classes, width)
    return nn.init.kaiming_normal_(proxies, mode="fan_out", generator=generator)
