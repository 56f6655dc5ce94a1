"""How the clients' data differ beyond the partition: latent groups (section 24.3).

Client k belongs to index k mod G, or, with crossed factors, to one index per factor.
A shift changes images (``rotation``, ``photometric``), labels (``label-permutation``)
or which classes a client sees (``label-window``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

SHIFTS = ("rotation", "photometric", "label-window", "label-permutation")
NOISE = 0.05
"""Standard deviation of photometric noise, on images scaled to 0..1."""


@dataclass(frozen=True)
class Shift:
    """Names of the effects, and the number of groups: one for all, or one for each."""

    names: tuple[str, ...]
    groups: tuple[int, ...]


def parse_shift(names: str, groups: str) -> Shift:
    """Read ``data.shift`` and ``data.shift-groups``, such as "rotation" and "4".

    Several names are joined by ``+``. One number of groups makes one index drive them
    all; ``"2x5"`` crosses them, in the order of the names. "none" has one group.
    """
    if names == "none":
        return Shift((), (1,))
    parts = tuple(names.split("+"))
    if not set(parts) <= set(SHIFTS) or len(set(parts)) < len(parts):
        raise ValueError(
            f"data.shift = {names!r}; use 'none' or one or more of "
            f"{', '.join(SHIFTS)}, each once, joined by '+'"
        )
    counts = groups.split("x")
    if not all(count.isdecimal() and int(count) > 0 for count in counts):
        raise ValueError(
            f"data.shift-groups = {groups!r}; use a positive number such as '4', or "
            "one for each name in data.shift such as '2x5'"
        )
    if len(counts) not in (1, len(parts)):
        raise ValueError(
            f"data.shift-groups = {groups!r} has {len(counts)} factors, data.shift = "
            f"{names!r} has {len(parts)}; give one number for all or one for each"
        )
    return Shift(parts, tuple(int(count) for count in counts))


def factors_of(client: int, shift: Shift) -> tuple[int, ...]:
    """Return the client's index in each factor, the first factor changing fastest."""
    indices, rest = [], client
    for count in shift.groups:
        rest, index = divmod(rest, count)
        indices.append(index)
    return tuple(indices)


def group_of(client: int, shift: Shift) -> int:
    """Return the client's latent group: its index, or its cell when crossed."""
    return client % math.prod(shift.groups)


def indices_of(client: int, shift: Shift) -> dict[str, int]:
    """Return the client's index for each effect by name."""
    factors = factors_of(client, shift)
    if len(factors) == 1:
        factors *= len(shift.names)
    return dict(zip(shift.names, factors, strict=True))


def groups_of(shift: Shift) -> dict[str, int]:
    """Return the number of groups of each effect by name."""
    counts = shift.groups
    if len(counts) == 1:
        counts *= len(shift.names)
    return dict(zip(shift.names, counts, strict=True))


def window(index: int, *, groups: int, classes: int) -> set[int]:
    """Return the classes that group ``index`` sees (E1): a window that wraps around."""
    width = min(max(2, math.ceil(classes / groups)), classes)
    start = index * classes // groups
    return {(start + offset) % classes for offset in range(width)}


def permutations(groups: int, classes: int, seed: int) -> list[list[int]]:
    """Return the label map of each group (E3): new label by old one.

    The first is the identity; the others leave no label in place, and all differ.
    """
    # d(n) = (n - 1)(d(n - 1) + d(n - 2)) counts the maps that leave none in place.
    before, count = 1, 0
    for n in range(2, classes + 1):
        before, count = count, (n - 1) * (count + before)
    if groups - 1 > count:
        raise ValueError(
            f"{classes} classes allow {count + 1} groups of data.shift = "
            f"'label-permutation'; data.shift-groups asks for {groups}"
        )
    identity = list(range(classes))
    maps = [identity]
    rng = np.random.default_rng([seed, classes])
    while len(maps) < groups:
        drawn: list[int] = rng.permutation(classes).tolist()
        moved = all(new != old for new, old in zip(drawn, identity, strict=True))
        if moved and drawn not in maps:
            maps.append(drawn)
    return maps


def rotate(images: Tensor, *, index: int, groups: int) -> Tensor:
    """Turn images (n, C, H, W) by ``360 index / groups`` degrees, counter-clockwise.

    Multiples of 90 degrees are exact where height and width allow; other angles are
    bilinear, and corners are filled with zeros.
    """
    turns, rest = divmod(4 * index, groups)
    square = images.shape[-2] == images.shape[-1]
    if rest == 0 and (square or turns % 2 == 0):
        return torch.rot90(images, turns, dims=(-2, -1))
    # Imported here: it takes seconds, in every worker.
    from torchvision.transforms.v2 import functional as images_of

    turned: Tensor = images_of.rotate(
        images,
        360 * index / groups,
        interpolation=images_of.InterpolationMode.BILINEAR,
        fill=[0.0],
    )
    return turned


def photometric(
    images: Tensor, *, index: int, groups: int, generator: torch.Generator
) -> Tensor:
    """Lower the contrast of images in 0..1 by ``1 - 0.8 index / groups``; add noise.

    The noise, of deviation ``NOISE``, is one pattern for all images, as of one camera.
    Values are not clipped.
    """
    from torchvision.transforms.v2 import functional as images_of

    faded: Tensor = images_of.adjust_contrast(images, 1 - 0.8 * index / groups)
    pattern = torch.randn(images.shape[1:], generator=generator) * NOISE
    return faded + pattern.to(images.device)


def shift_images(images: Tensor, client: int, shift: Shift, *, seed: int) -> Tensor:
    """Apply the client's image effects to float images in 0..1, in order of name."""
    indices, groups = indices_of(client, shift), groups_of(shift)
    for name in shift.names:
        index, count = indices[name], groups[name]
        if name == "rotation":
            images = rotate(images, index=index, groups=count)
        elif name == "photometric":
            generator = torch.Generator().manual_seed(seed * 1_000_003 + client)
            images = photometric(images, index=index, groups=count, generator=generator)
    return images


def allowed_classes(
    shift: Shift, *, clients: int, classes: int
) -> list[set[int]] | None:
    """Return the classes each client may see, or None where all see all."""
    if "label-window" not in shift.names:
        return None
    count = groups_of(shift)["label-window"]
    indices: list[Mapping[str, int]] = [indices_of(k, shift) for k in range(clients)]
    return [
        window(own["label-window"], groups=count, classes=classes) for own in indices
    ]


def label_maps(shift: Shift, *, classes: int, seed: int) -> list[list[int]]:
    """Return the label map of each index of ``label-permutation``, [] without it."""
    if "label-permutation" not in shift.names:
        return []
    return permutations(groups_of(shift)["label-permutation"], classes, seed)
