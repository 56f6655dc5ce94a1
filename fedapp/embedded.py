"""What the bank keeps of each client for EMD-CFL, and the distances it adds.

A row has the client's ``model`` after its first training, ``pairs``: its distance to
every client and whether it is known, and, where all embed under one encoder, its
embeddings ``emb-train`` and ``emb-val``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch

from fedapp.algorithm import Update
from fedapp.bank import Row
from fedapp.params import Params
from fedapp.transport import Array, Flags, embedding_distance
from fedapp.turn import Turn


def row_of(turn: Turn, client: int) -> Row:
    """Return the newest row of a client that has one."""
    row = turn.bank.read(client, fresh=True)
    assert row is not None
    return row


def strangers(row: Row, clients: Iterable[int]) -> list[int]:
    """Return those of ``clients`` whose distance from this one is not known."""
    known = row.part("pairs")["known"]
    return [k for k in clients if k != row.client and not known[k]]


def distances_among(turn: Turn, clients: Sequence[int]) -> tuple[Array, Flags]:
    """Return the distances of ``clients`` (donor, client), and which are known."""
    pairs = [row_of(turn, client).part("pairs") for client in clients]
    distances = np.stack([pair["distances"].numpy()[clients] for pair in pairs])
    return distances, np.stack([pair["known"].numpy()[clients] > 0 for pair in pairs])


def keep_first(turn: Turn, update: Update) -> None:
    """Keep the model of a client that trained for the first time."""
    count = turn.num_clients
    pairs = {
        "distances": torch.zeros(count, dtype=torch.float64),
        "known": torch.zeros(count, dtype=torch.uint8),
    }
    payload = {"model": update.sent["model"], "pairs": pairs}
    turn.bank.write(
        update.client, payload, num_examples=update.num_examples, round=turn.round
    )


def keep_embeddings(turn: Turn, update: Update) -> None:
    """Keep embeddings under the shared encoder."""
    _add(turn, update.client, update.sent)


def keep_distances(turn: Turn, donor: int, found: Mapping[int, float]) -> None:
    """Keep the distances of a donor to other clients."""
    before = row_of(turn, donor).part("pairs")
    pairs = {name: leaf.clone() for name, leaf in before.items()}
    for client, distance in found.items():
        pairs["distances"][client], pairs["known"][client] = distance, 1
    _add(turn, donor, {"pairs": pairs})


def compared_pairs(
    updates: Iterable[Update],
) -> Iterator[tuple[int, dict[int, float]]]:
    """Yield each donor's distances, from replies donor by donor, its own the first.

    ``D(c, a) = W1(train of c, val of a) - W1(train of c, val of c)``, all under the
    encoder of donor c. Without the donor's own embeddings there are none.
    """
    donor, train, own = -1, np.empty((0, 0)), 0.0
    found: dict[int, float] = {}
    for update in updates:
        val = _rows(update.sent["emb-val"])
        if update.asked["own"]:
            if found:
                yield donor, found
            donor, train = update.client, _rows(update.sent["emb-train"])
            own, found = embedding_distance(train, val), {}
        elif update.asked["donor"] == donor:
            found[update.client] = embedding_distance(train, val) - own
    if found:
        yield donor, found


def compared_rows(turn: Turn) -> Iterator[tuple[int, dict[int, float]]]:
    """Yield each client's missing distances, from the embeddings that are kept."""
    rows = [row_of(turn, client) for client in turn.bank.clients(fresh=True)]
    val = {row.client: row.part("emb-val") for row in rows if row.part("emb-val")}
    for row in rows:
        missing = strangers(row, val) if row.client in val else []
        if missing:
            train = _rows(row.part("emb-train"))
            own = embedding_distance(train, _rows(val[row.client]))
            yield (
                row.client,
                {k: embedding_distance(train, _rows(val[k])) - own for k in missing},
            )


def _add(turn: Turn, client: int, parts: Mapping[str, Params]) -> None:
    row = row_of(turn, client)
    payload = {**row.file.payload(), **parts}
    count = row.num_examples
    turn.bank.write(client, payload, num_examples=count, round=turn.round)


def _rows(part: Params) -> Array:
    rows: Array = part["rows"].double().numpy()
    return rows
