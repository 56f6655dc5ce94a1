"""Storing float32 tensors in half the room."""

import torch
from torch import Tensor

from fedapp.params import Params, Payload, tree_map

LARGEST = torch.finfo(torch.float16).max

STATISTICS = ("running_mean", "running_var")
"""BatchNorm's own: few numbers, of which a variance may be far below what float16
keeps to three digits (6e-5), and is divided by."""


def to_half(payload: Payload) -> tuple[dict[str, Params], list[str]]:
    """Return ``payload`` with float32 tensors as float16, and the names of exceptions.

    BatchNorm statistics stay float32, as do tensors with a value beyond 65504, which
    would become infinite: these are named. Integers and other types are not touched.
    """
    wide: list[str] = []

    def tree_of(part: str, tree: Params) -> Params:
        return {name: narrowed(f"{part}/{name}", leaf) for name, leaf in tree.items()}

    def narrowed(name: str, leaf: Tensor) -> Tensor:
        if leaf.dtype != torch.float32 or name.endswith(STATISTICS):
            return leaf
        if leaf.numel() and bool(leaf.abs().max() > LARGEST):
            wide.append(name)
            return leaf
        return leaf.half()

    return {part: tree_of(part, tree) for part, tree in payload.items()}, wide


def to_single(tree: Params) -> dict[str, Tensor]:
    """Return ``tree`` with float16 tensors as float32."""
    return tree_map(
        lambda leaf: leaf.float() if leaf.dtype == torch.float16 else leaf, tree
    )
