"""Replies and strategies for tests of prototype methods."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from fedapp.algorithm import Update
from fedapp.config import build, defaults
from fedapp.params import Params

T = TypeVar("T")

INITIAL: Params = {
    "encoder.w": torch.zeros(1),
    "head.weight": torch.zeros(3, 2),
    "head.bias": torch.zeros(3),
}
"""Three classes and two coordinates."""


def half(cls: type[T], method: str, **changes: Any) -> T:
    """Return one half of a method with default settings, some changed."""
    start = method + "."
    table = {
        name.removeprefix(start).replace("-", "_"): value
        for name, value in defaults().items()
        if name.startswith(start)
    }
    return build(cls, {**table, **changes})


def parts(**tensors: Any) -> dict[str, dict[str, Tensor]]:
    """Return tensors as the parts of a message; ``_`` in names becomes ``-``."""
    return {
        name.replace("_", "-"): {"values": torch.as_tensor(values)}
        for name, values in tensors.items()
    }


def classes(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def reply(client: int = 0, count: int = 10, metrics: Any = None, **tensors: Any):
    """Return a client's update of these parts."""
    return Update(parts(**tensors), count, metrics or {}, client=client)


A = {"protos": [[2.0, 0]], "classes": classes(0), "counts": [2.0]}
B = {"protos": [[0.0, 4], [0, 3]], "classes": classes(0, 1), "counts": [1.0, 3.0]}
"""The clients of the specification, section 17."""


def memories(done, part: str = "model") -> list[dict[str, Tensor]]:
    """Return what each client of a run remembers in one part, by client."""
    homes = sorted((done.path / "memory").iterdir())
    files = [sorted(home.iterdir())[-1].relative_to(done.path) for home in homes]
    return [done.tensors(str(file))[part] for file in files]


def same_models(one, other) -> bool:
    """Return whether two runs left the same models with their clients, bit for bit."""
    pairs = list(zip(memories(one), memories(other), strict=True))
    assert pairs
    return all(
        mine.keys() == theirs.keys()
        and all(torch.equal(mine[n], theirs[n]) for n in mine)
        for mine, theirs in pairs
    )
