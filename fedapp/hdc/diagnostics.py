"""What is worth knowing of a refresh and is in no other table (specification 23.3)."""

from collections.abc import Iterator, Mapping

from fedapp.hdc.refresh import Refresh

DIRECTIONS = 64
"""Most directions of a spectrum that are written down: twice what may be kept."""

Line = dict[str, int | float | str | bool]


def silhouettes(found: Refresh) -> Iterator[Line]:
    """Yield the mean silhouette of each group count that was tried."""
    for groups, silhouette in sorted(found.silhouettes.items()):
        chosen = groups == len(found.groups.ids)
        yield {"groups": groups, "silhouette": silhouette, "chosen": chosen}


def spectrum(found: Refresh) -> Iterator[Line]:
    """Yield the share of head energy of each direction, the largest first."""
    total = float(found.subspace.eigenvalues.sum())
    for place, value in enumerate(found.subspace.eigenvalues[:DIRECTIONS], start=1):
        yield {
            "direction": place,
            "share": float(value) / total,
            "kept": place <= found.subspace.rank,
        }


def ages(written: Mapping[int, int], *, round: int, max_age: int) -> Iterator[Line]:
    """Yield how many rounds ago each client's entry was ``written``, and if it counts.

    ``max_age`` is as in the settings: 0 lets every entry count.
    """
    for client, when in written.items():
        age = round - when
        counts = max_age == 0 or age <= max_age
        yield {"client": client, "age": age, "in_prototypes": counts}
