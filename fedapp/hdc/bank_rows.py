"""What HDC-FL reads of the bank, one row in memory at a time."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedapp.bank import Bank
from fedapp.hdc.grouping import Labels
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import Floats
from fedapp.hdc.mixture import group_prototypes
from fedapp.params import Params


def bank_heads(bank: Bank) -> Heads:
    """Return the newest heads of all clients whose row is whole."""

    def read(clients: Sequence[int]) -> Iterator[tuple[int, Floats]]:
        for row, head in bank.parts(clients, "head", fresh=True):
            yield row.client, head["weight"].numpy()

    return Heads(read, bank.clients(fresh=True))


def prototypes_in(
    bank: Bank,
    clients: Sequence[int],
    labels: Labels,
    *,
    groups: int,
    since: int,
    convert: Callable[[Params], Params],
) -> tuple[list[Params | None], Labels]:
    """Return each group's prototype, and the example counts that went into them.

    ``since`` is the oldest round that counts. A client whose row is older, damaged or
    gone, or whose label is -1, counts 0, and its encoder is not read.
    """
    rounds = bank.rounds
    counted = {
        client: index
        for index, (client, label) in enumerate(zip(clients, labels, strict=True))
        if label >= 0 and rounds.get(client, -1) >= since
    }
    counts = np.zeros(len(clients), dtype=np.int64)

    def trees() -> Iterator[tuple[int, float, Params]]:
        for row, encoder in bank.parts(list(counted), "encoder", fresh=True):
            index = counted[row.client]
            counts[index] = row.num_examples
            yield int(labels[index]), float(row.num_examples), convert(encoder)

    return group_prototypes(trees(), groups), counts


def own_encoder(bank: Bank, client: int) -> Params | None:
    """Return a client's newest encoder, None if its row is damaged or gone."""
    for _, encoder in bank.parts([client], "encoder", fresh=True):
        return encoder
    return None
