"""All clients' statistics side by side, where a simulation knows the data.

For reports only: nothing here is in a message, and no training sees it. On devices
nobody could compute it.
"""

import torch

from client_apps.conditional import LocalConditional, seen
from fedapp.algorithm import LocalAlgorithm
from fedapp.data.clients import client_samples
from fedapp.data.images import ImageSet
from fedapp.data.manifest import Manifest
from fedapp.params import Params, Payload
from fedapp.statistics.recipe import statistic
from fedapp.turn import State

FILE = "conditional/statistics.safetensors"


def diagnose(
    algorithm: LocalAlgorithm, images: ImageSet, manifest: Manifest, state: State
) -> dict[str, Payload]:
    """Return the statistic of every client (clients, length), by the file it goes to.

    Each as its model sees it, standardised with the constants in ``state`` if there
    are any; for ``shuffled`` its own, not the one it is given.
    """
    assert isinstance(algorithm, LocalConditional)
    rows = []
    for client, plan in enumerate(manifest.clients):
        s = statistic(
            algorithm.recipe(manifest.seed),
            client_samples(images, manifest, client).train,
            classes=manifest.classes,
            client=client,
            group=plan.group,
        )
        memory: dict[str, Params] = {"statistic": {"s": torch.from_numpy(s)}}
        if "agreement" in state:
            memory["agreement"] = state["agreement"]
        rows.append(seen(memory))
    return {FILE: {"statistics": {"s": torch.stack(rows)}}}
