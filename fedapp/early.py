"""The early features of a model: what FedMPS takes its low-level prototypes from."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional

from fedapp.models import Classifier

SIDE = 4
"""Largest height and width of the early maps of the deep networks, after pooling."""


def early_layer(model: Classifier) -> nn.Module:
    """Return the layer whose output is early in ``model``.

    The last map of a small CNN, the first layer of a perceptron, the first stage of a
    ResNet, the second block of a MobileNet.

    Raises
    ------
    ValueError
        If the model is of another kind.
    """
    body = getattr(model.encoder, "body", model.encoder)
    if isinstance(body, nn.Sequential):
        layers = list(body)
        flat = next(
            (i for i, m in enumerate(layers) if isinstance(m, nn.Flatten)), None
        )
        if flat is not None:
            return layers[flat] if flat > 0 else layers[min(2, len(layers) - 1)]
    stage, blocks = getattr(body, "layer1", None), getattr(body, "features", None)
    if isinstance(stage, nn.Module):
        return stage
    if isinstance(blocks, nn.Sequential):
        return blocks[2]
    raise ValueError(
        f"no early layer is known of a {type(body).__name__}; use another model.name, "
        "or name one in fedapp/early.py"
    )


def flattened(maps: Tensor) -> Tensor:
    """Return early maps (n, c, h, w) as rows, pooled to at most 4 by 4 pixels."""
    if maps.dim() == 4:
        height, width = (min(SIDE, size) for size in maps.shape[2:])
        maps = functional.adaptive_avg_pool2d(maps, (height, width))
    return maps.flatten(1).float()


@contextmanager
def watched(model: Classifier) -> Iterator[list[Tensor]]:
    """Give a list whose last entry is always the newest early features."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
        del module, inputs
        seen[:] = [flattened(output)]

    handle = early_layer(model).register_forward_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()
