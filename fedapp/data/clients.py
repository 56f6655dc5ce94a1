"""What each client has: a manifest for all, and one client's samples from it."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedapp.data.images import ImageSet
from fedapp.data.labelled import split_labelled
from fedapp.data.manifest import ClientPlan, Manifest
from fedapp.data.partition import partition as divide
from fedapp.data.partition import split
from fedapp.data.rule import N_WAY
from fedapp.data.samples import Samples
from fedapp.data.shift import (
    Shift,
    allowed_classes,
    factors_of,
    group_of,
    indices_of,
    label_maps,
    parse_shift,
)
from fedapp.data.view import ClientView
from fedapp.models import ImageShape

__all__ = [
    "ClientCache",
    "ClientData",
    "Manifest",
    "client_samples",
    "local_samples",
    "make_manifest",
]


@dataclass(frozen=True)
class ClientData:
    """A client's training and test samples; ``unlabelled`` ones have hidden labels."""

    train: Samples
    test: Samples
    unlabelled: Samples | None = None


def make_manifest(
    images: ImageSet,
    *,
    seed: int,
    name: str,
    clients: int,
    unseen_clients: int,
    partition: str,
    alpha: float,
    classes_per_client: int,
    shift: str,
    shift_groups: str,
    samples_per_client: int,
    test_fraction: float,
    official_split: bool,
    augment: bool,
    label_fraction: float = 1.0,
    ways_spread: int = 0,
    shots: int = 1,
) -> Manifest:
    """Divide a data set among ``clients`` as the data settings say."""
    if not 0 <= unseen_clients < clients:
        raise ValueError(
            f"data.unseen-clients = {unseen_clients} of data.clients = {clients}; "
            "leave at least one client to train"
        )
    if official_split and not images.official_test.any():
        raise ValueError(
            f"data.official-split = true, but {name} has no official test split here; "
            "set it to false, or add the test file to data.path"
        )
    effects = parse_shift(shift, shift_groups)
    maps = label_maps(effects, classes=images.classes, seed=seed)
    parts = divide(
        partition,
        np.asarray(images.labels),
        clients=clients,
        alpha=alpha,
        classes_per_client=classes_per_client,
        ways_spread=ways_spread,
        shots=shots,
        samples_per_client=samples_per_client,
        test_fraction=test_fraction,
        owners=images.owners,
        official_test=np.asarray(images.official_test) if official_split else None,
        seed=seed,
        allowed=allowed_classes(effects, clients=clients, classes=images.classes),
    )

    def plan(client: int) -> ClientPlan:
        train, hidden = parts.train[client], parts.train[client][:0]
        labels = _mapped(images.labels[train], maps, client, effects)
        if label_fraction < 1:
            shown, rest = split_labelled(
                labels, label_fraction, seed=seed, client=client
            )
            train, hidden, labels = train[shown], train[rest], labels[shown]
        histogram = np.bincount(labels, minlength=images.classes)
        return ClientPlan(
            train=tuple(train.tolist()),
            test=tuple(parts.test[client].tolist()),
            group=group_of(client, effects),
            factors=factors_of(client, effects),
            classes=tuple(np.flatnonzero(histogram).tolist()),
            histogram=tuple(histogram.tolist()),
            unlabelled=tuple(hidden.tolist()),
        )

    return Manifest(
        name=name,
        key=images.key,
        classes=images.classes,
        image=ImageShape(*images.images.shape[1:]),
        mean=images.mean,
        std=images.std,
        seed=seed,
        settings={
            "unseen-clients": unseen_clients,
            "partition": partition,
            "alpha": alpha,
            "classes-per-client": classes_per_client,
            "shift": shift,
            "shift-groups": shift_groups,
            "samples-per-client": samples_per_client,
            "test-fraction": test_fraction,
            "official-split": official_split,
            "augment": augment,
            **({"label-fraction": label_fraction} if label_fraction < 1 else {}),
            **(
                {"ways-spread": ways_spread, "shots": shots}
                if partition == N_WAY
                else {}
            ),
        },
        label_maps=tuple(tuple(row) for row in maps),
        clients=tuple(plan(client) for client in range(clients)),
        notes=tuple(parts.notes),
    )


def _mapped(
    labels: NDArray[np.int64],
    maps: Sequence[Sequence[int]],
    client: int,
    shift: Shift,
) -> NDArray[np.int64]:
    if not maps:
        return labels
    index = indices_of(client, shift)["label-permutation"]
    return np.array(maps[index], dtype=np.int64)[labels]


def client_samples(images: ImageSet, manifest: Manifest, client: int) -> ClientData:
    """Return one client's samples: its rows, with its labels, shift and scale."""
    if images.key != manifest.key:
        raise ValueError(
            f"the manifest is for data set {manifest.key}, not {images.key}; use the "
            "files it was made from"
        )
    if not 0 <= client < len(manifest.clients):
        raise ValueError(f"client {client}; there are {len(manifest.clients)}, from 0")
    plan, shift = manifest.clients[client], manifest.shift
    view = ClientView(client, shift, manifest.seed, manifest.mean, manifest.std)

    def part(index: tuple[int, ...], *, raw: bool) -> Samples:
        rows = np.array(index, dtype=np.int64)
        labels = _mapped(images.labels[rows], manifest.label_maps, client, shift)
        return _samples(images.images[rows], labels, view, raw=raw)

    augment = bool(manifest.settings["augment"])
    hidden = part(plan.unlabelled, raw=augment) if plan.unlabelled else None
    return ClientData(part(plan.train, raw=augment), part(plan.test, raw=False), hidden)


def local_samples(
    images: ImageSet,
    *,
    test_fraction: float,
    seed: int,
    augment: bool,
    label_fraction: float = 1.0,
) -> ClientData:
    """Return all samples of a data set, as one device's own.

    The official test split is the test part where there is one; else a share of each
    class is.
    """
    test = np.flatnonzero(images.official_test)
    train = np.flatnonzero(~images.official_test)
    if len(test) == 0 or len(train) == 0:
        rng = np.random.default_rng(seed)
        train, test = split(
            np.asarray(images.labels), test_fraction=test_fraction, rng=rng
        )
    hidden = train[:0]
    if label_fraction < 1:
        labels = np.asarray(images.labels)[train]
        shown, rest = split_labelled(labels, label_fraction, seed=seed, client=0)
        train, hidden = train[shown], train[rest]
    view = ClientView(0, parse_shift("none", ""), seed, images.mean, images.std)

    def part(rows: NDArray[np.int64], *, raw: bool) -> Samples:
        return _samples(images.images[rows], images.labels[rows], view, raw=raw)

    return ClientData(
        part(train, raw=augment),
        part(test, raw=False),
        part(hidden, raw=augment) if len(hidden) else None,
    )


def _samples(
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    view: ClientView,
    *,
    raw: bool,
) -> Samples:
    images, targets = torch.from_numpy(pixels), torch.from_numpy(labels)
    if raw:
        return Samples(images, targets, view)
    return Samples(view(images, None), targets)


class ClientCache:
    """The client data used last, up to a number of bytes; one per process."""

    def __init__(self, limit: int = 256 * 2**20) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, ClientData] = OrderedDict()

    def get(self, key: Hashable, build: Callable[[], ClientData]) -> ClientData:
        """Return what is kept under ``key``, or build it and keep it."""
        if key not in self._kept:
            self._kept[key] = build()
        self._kept.move_to_end(key)
        found = self._kept[key]
        while sum(map(_bytes, self._kept.values())) > self._limit:
            self._kept.popitem(last=False)
        return found


def _bytes(data: ClientData) -> int:
    parts = (data.train, data.test, data.unlabelled)
    return sum(part.images.nbytes + part.labels.nbytes for part in parts if part)
