"""The donor swap: each client's own head under every other client's cached encoder.

Nothing is trained (specification 23.9); ``fedapp/hdc/swap.py`` has what is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.bank_rows import own_encoder
from fedapp.hdc.heads import Array
from fedapp.ledger import Score
from fedapp.study.bench import Bench
from fedapp.study.place import StudyError
from fedapp.study.pool import spread

FEWEST = 3
"""Fewest clients: with two there is no choice of donors."""


@dataclass(frozen=True)
class Swaps:
    """The clients swapped, ascending; K x K similarity, loss and accuracy, targets in
    rows; and the group of each client, found and latent."""

    clients: tuple[int, ...]
    similarity: Array
    loss: Array
    accuracy: Array
    found: tuple[int, ...]
    latent: tuple[int, ...]


def swap(
    bench: Bench,
    *,
    processes: int | None,
    on_done: Callable[[int], None] = lambda count: None,
) -> Swaps:
    """Score all ordered pairs of the clients that were grouped at the last refresh.

    ``on_done`` hears of scored pairs.

    Raises
    ------
    StudyError
        If fewer than three clients were.
    """
    clients = tuple(bench.snapshot.clients.tolist())
    if len(clients) < FEWEST:
        raise StudyError(
            f"{len(clients)} clients have a head that was grouped; a donor swap takes "
            f"{FEWEST} or more"
        )
    loss, accuracy = (np.zeros((len(clients),) * 2) for _ in range(2))
    jobs = [(target, clients) for target in clients]
    for row, scores in enumerate(spread(_targets, jobs, bench, processes=processes)):
        loss[row] = [score.loss for score in scores]
        accuracy[row] = [score.accuracy for score in scores]
        on_done(len(scores))
    plans = bench.manifest.clients
    return Swaps(
        clients=clients,
        similarity=np.asarray(bench.snapshot.similarity),
        loss=loss,
        accuracy=accuracy,
        found=tuple(bench.snapshot.labels.tolist()),
        latent=tuple(plans[client].group for client in clients),
    )


def _targets(bench: Bench, job: tuple[int, tuple[int, ...]]) -> list[Score]:
    """Score one target under the encoder of each donor."""
    target, donors = job
    scores = []
    for donor in donors:
        encoder = own_encoder(bench.bank, donor)
        if encoder is None:
            raise StudyError(f"the bank's row of client {donor} is damaged or gone")
        received = {"encoder": encoder}
        scores.append(bench.score(target, received, name=str(donor)))
    return scores
