"""Data and learning settings of published studies, each under a name of its own.

The 97 of Client-Conditional FL (section 24.3): four kinds of heterogeneity, four data
sets, several numbers of clusters, and what happens when samples become few. The paper
names kinds, data sets and the count; the enumeration is the specification's.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedapp.config import Scalar, SettingsError, suggestion

DATASETS = ("mnist", "fashion-mnist", "cifar10", "cifar100")
CLUSTERS = (2, 4, 5, 10)
CELLS = ((2, 2), (2, 5), (4, 5))
SIZES = (6000, 3000, 1000, 500, 200)
SPARSE_CLUSTERS, SPARSE_CELLS = 5, (2, 5)
TEST_SAMPLES = 500
"""Test samples of a client in the sparse configurations, whatever it trains on."""

SHIFTS = {
    "e1": "label-window",
    "e2": "rotation",
    "e3": "label-permutation",
    "e4a": "label-window+rotation",
    "e4b": "rotation+label-permutation",
}
WORDS = {
    "e1": "label shift: each group sees a window of classes",
    "e2": "covariate shift: each group sees images turned by an angle",
    "e3": "concept shift: each group has its own meaning of labels",
    "e4a": "combined: one index drives window and angle",
    "e4b": "crossed: angle and meaning of labels vary apart",
}

SHARED: dict[str, Scalar] = {
    "data.clients": 20,
    "data.partition": "iid",
    "data.official-split": True,
    "data.samples-per-client": 0,
    "model.name": "cnn-128",
    "rounds.count": 50,
    "rounds.fraction": 1.0,
    "local.epochs": 2,
    "local.batch-size": 64,
    "local.lr": 0.01,
    "local.momentum": 0.9,
}


@dataclass(frozen=True)
class Configuration:
    """Settings by dotted name, and what they stand for."""

    settings: Mapping[str, Scalar]
    about: str


@functools.cache
def configurations() -> dict[str, Configuration]:
    """Return all configurations by name."""
    found: dict[str, Configuration] = {}
    for name, configuration in (*_by_clusters(), *_by_cells(), *_by_size()):
        assert name not in found, name
        found[name] = configuration
    return found


def _by_clusters() -> Iterator[tuple[str, Configuration]]:
    for data in DATASETS:
        for kind in ("e1", "e2", "e3"):
            for count in CLUSTERS:
                yield f"{kind}-g{count}-{data}", _made(kind, data, str(count), count)


def _by_cells() -> Iterator[tuple[str, Configuration]]:
    """Yield E4a with one index for as many groups as E4b has cells, and E4b."""
    for data in DATASETS:
        for first, second in CELLS:
            count, crossed = first * second, f"{first}x{second}"
            yield f"e4a-g{count}-{data}", _made("e4a", data, str(count), count)
            yield f"e4b-{crossed}-{data}", _made("e4b", data, crossed, count)


def _by_size() -> Iterator[tuple[str, Configuration]]:
    for kind in SHIFTS:
        for size in SIZES:
            groups, count = str(SPARSE_CLUSTERS), SPARSE_CLUSTERS
            if kind == "e4b":
                groups, count = "x".join(map(str, SPARSE_CELLS)), 10
            few = {
                "data.clients": 10,
                "data.samples-per-client": size,
                "data.test-fraction": TEST_SAMPLES / (size + TEST_SAMPLES),
            }
            made = _made(kind, "mnist", groups, count)
            about = f"{made.about}; 10 clients of {size} samples"
            yield (
                f"{kind}-n{size}-mnist",
                Configuration({**made.settings, **few}, about),
            )


def _made(kind: str, data: str, groups: str, count: int) -> Configuration:
    own: dict[str, Scalar] = {
        "data.name": data,
        "data.shift": SHIFTS[kind],
        "data.shift-groups": groups,
        # What looks for clusters is told how many there are.
        "ifca.clusters": count,
    }
    return Configuration({**SHARED, **own}, f"{WORDS[kind]}; groups {groups}, {data}")


def configuration(name: str) -> Mapping[str, Scalar]:
    """Return the settings of a configuration.

    Raises
    ------
    SettingsError
        If there is none of that name; the message names the closest.
    """
    found = configurations()
    if name not in found:
        hint = suggestion(name, found) or "; see: fedapp configurations"
        raise SettingsError(f"configuration {name!r}: there is none of that name{hint}")
    return found[name].settings
