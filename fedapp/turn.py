"""What the server knows in one phase of one round, and what it asks of clients."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from fedapp.algorithm import Scalars, Update
from fedapp.bank import Bank
from fedapp.params import Params, Payload, first_non_finite

State = Payload
"""What the server keeps between rounds, beside the model: small, tensors only."""


class Task(NamedTuple):
    """One message to one client."""

    client: int
    payload: Payload
    scalars: Scalars = MappingProxyType({})


class Spec(NamedTuple):
    """What a tensor of a reply must be; None in ``shape`` allows any size."""

    shape: tuple[int | None, ...]
    dtype: torch.dtype = torch.float32


Expected = Mapping[str, Mapping[str, Spec]]
"""What a reply must hold: part, tensor name, kind of tensor."""


def specs_of(tree: Params) -> dict[str, Spec]:
    """Return the specs that exactly ``tree`` fulfils."""
    return {name: Spec(tuple(leaf.shape), leaf.dtype) for name, leaf in tree.items()}


def _no_table(table: str, row: Mapping[str, int | float | str | bool]) -> None:
    del table, row


@dataclass(frozen=True)
class Turn:
    """One phase of one round, as every hook of a method sees it.

    ``round`` counts from 1 to ``rounds``; ``step`` counts the phases of the round from
    0. ``sampled`` is the round's shared sample S_t, sorted. ``last_trained`` has the
    last round in which each client that ever trained did. ``groups`` has the latent
    group of every client where it is known. ``log`` appends a row to a CSV table of the
    method in the run folder.
    """

    round: int
    rounds: int
    phase: str
    step: int
    num_clients: int
    sampled: Sequence[int]
    seed: int
    bank: Bank
    last_trained: Mapping[int, int] = field(default_factory=dict)
    groups: Sequence[int] = ()
    log: Callable[[str, Mapping[str, int | float | str | bool]], None] = _no_table

    @property
    def last(self) -> bool:
        """Whether this is the last round."""
        return self.round == self.rounds

    def generator(self) -> np.random.Generator:
        """Return a new generator seeded by (seed, round, phase)."""
        return np.random.default_rng(
            [self.seed, self.round, zlib.crc32(self.phase.encode())]
        )


def sample_clients(
    *, seed: int, round: int, candidates: int, fraction: float
) -> tuple[int, ...]:
    """Return S_t: a share of clients 0 .. candidates - 1, sorted, at least one.

    It depends on the arguments alone, so all methods of one experiment see the same.
    """
    count = max(1, min(candidates, round_half_up(fraction * candidates)))
    if count == candidates:
        return tuple(range(candidates))
    rng = np.random.default_rng([seed, round])
    chosen = rng.choice(candidates, size=count, replace=False)
    return tuple(sorted(int(client) for client in chosen))


def round_half_up(value: float) -> int:
    """Return the nearest integer; 28.999999999999996 is 29, not 28."""
    return int(np.floor(value + 0.5))


def check_update(update: Update, expected: Expected) -> None:
    """Raise ValueError if a reply may not be used; the message says why."""
    if update.num_examples <= 0:
        raise ValueError(f"it stands for {update.num_examples} examples, not 1 or more")
    if update.sent.keys() != expected.keys():
        raise ValueError(
            f"it holds {sorted(update.sent) or 'nothing'} instead of "
            f"{sorted(expected) or 'nothing'}"
        )
    for part, specs in expected.items():
        tree = update.sent[part]
        for name in sorted(specs.keys() | tree.keys()):
            if name not in tree:
                raise ValueError(f"tensor {part}/{name} is missing")
            if name not in specs:
                raise ValueError(f"tensor {part}/{name} was not asked for")
            _check_tensor(f"{part}/{name}", tree[name], specs[name])
    bad = first_non_finite(update.sent)
    if bad is not None:
        raise ValueError(f"tensor {bad} has a NaN or an infinity")
    for name, value in update.metrics.items():
        if not np.isfinite(value):
            raise ValueError(f"metric {name} is {value}")


def _check_tensor(name: str, leaf: torch.Tensor, spec: Spec) -> None:
    shape = tuple(leaf.shape)
    fits = len(shape) == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, shape, strict=True)
    )
    if not fits:
        wanted = tuple("any" if size is None else size for size in spec.shape)
        raise ValueError(f"tensor {name} has shape {shape} instead of {wanted}")
    if leaf.dtype != spec.dtype:
        raise ValueError(f"tensor {name} is {leaf.dtype} instead of {spec.dtype}")
