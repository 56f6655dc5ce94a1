"""Different models on different clients: who has which, and whether they fit."""

from collections.abc import Sequence

import torch

from fedapp.models import MODELS, ImageShape, build


def names_in(mix: str) -> list[str]:
    """Return the models that a mix such as ``cnn,mlp,resnet18`` names, in order."""
    return [name.strip() for name in mix.split(",")] if mix.strip() else []


def dealt(client: int, *, name: str, mix: str) -> str:
    """Return the model of client k: of a mix of m the (k mod m)-th, else ``name``."""
    names = names_in(mix)
    return names[client % len(names)] if names else name


def width_of(
    name: str, image: ImageShape, *, projection: int, scale: float = 1.0
) -> int:
    """Return how many numbers an embedding of model ``name`` has."""
    # Without weights: a large network costs no time and no memory.
    with torch.device("meta"):
        model = build(name, image, 2, seed=0, width=scale, projection=projection)
    return model.head.in_features


def check_widths(
    names: Sequence[str],
    models: Sequence[str],
    image: ImageShape,
    *,
    projection: int,
    scale: float = 1.0,
) -> None:
    """Raise ValueError if two clients' embeddings differ in size; it names both.

    ``names`` are client ids and ``models`` their models, by client number; ``scale`` is
    ``model.width``.
    """
    widths = {
        m: width_of(m, image, projection=projection, scale=scale)
        for m in dict.fromkeys(models)
    }
    first = models[0]
    for name, model in zip(names, models, strict=True):
        if widths[model] != widths[first]:
            raise ValueError(
                f"embeddings differ in size: client {names[0]} ({first}) has "
                f"{widths[first]} numbers, client {name} ({model}) {widths[model]}; "
                "set model.projection, for example to 128, or choose models that agree"
            )


def in_words(names: Sequence[str], models: Sequence[str]) -> str:
    """Return who has which model, for the log."""
    found: dict[str, list[str]] = {}
    for name, model in zip(names, models, strict=True):
        found.setdefault(model, []).append(name)
    return "; ".join(f"{model}: {', '.join(who)}" for model, who in found.items())


def unknown_in(mix: str) -> list[str]:
    """Return the names in a mix that are no models."""
    return [name for name in names_in(mix) if name not in MODELS]
