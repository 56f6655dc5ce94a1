"""What is written down of a refresh (specification 23.3); docs/run-folder.md lists it.

Of more than a thousand clients it is those of the sample, so that tables stay short.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedapp.hdc.raw import RawRefresh
from fedapp.hdc.refresh import Refresh
from fedapp.hdc.stability import agreement

DIRECTIONS = 64
"""Most directions of a spectrum that are written down: twice what may be kept."""

Line = dict[str, int | float | str | bool]


def tables(
    found: Refresh,
    raw: RawRefresh | None,
    *,
    active: bool,
    latent: Sequence[int],
    written: Mapping[int, int],
    round: int,
    max_age: int,
) -> Iterator[tuple[str, Line]]:
    """Yield the name of a table and a line of it, for all that a refresh tells.

    ``latent`` has the latent group of every client, if it is known; ``written`` the
    round of every client's entry.
    """
    listed = found.listed()
    entries = {c: when for c, when in sorted(written.items()) if c in listed}
    for table, lines in (
        ("refreshes", [refresh_line(found, raw, active=active, latent=latent)]),
        ("memberships", memberships(found)),
        ("silhouettes", silhouettes(found)),
        ("spectrum", spectrum(found)),
        ("ages", ages(entries, round=round, max_age=max_age)),
    ):
        for line in lines:
            yield f"hdc-fl/{table}.csv", {"round": round, **line}


def refresh_line(
    found: Refresh, raw: RawRefresh | None, *, active: bool, latent: Sequence[int]
) -> Line:
    """Return a refresh in one line; what there is nothing to compare with is blank."""
    lasting = found.groups.lasting()
    true = [latent[client] for client in lasting] if latent else []
    return {
        "groups": len(found.groups.ids),
        "rank": found.subspace.rank,
        "energy": found.subspace.energy,
        "silhouette": _or_blank(found.silhouette),
        "ari_previous": _or_blank(found.ari),
        "descriptor_change": _or_blank(found.change),
        "stable": found.gate.counter > 0,
        "active": active,
        "ari_latent": agreement(true, list(lasting.values())) if true else "",
        "head_change": found.head_change,
        "spectral_gap": found.subspace.gap,
        "groups_raw": "" if raw is None else raw.groups,
        "silhouette_raw": _or_blank(raw.silhouette if raw else None),
        "ari_previous_raw": _or_blank(raw.ari if raw else None),
        "method": found.method,
    }


def memberships(found: Refresh) -> Iterator[Line]:
    """Yield the membership of each client in each group."""
    groups, listed, lasting = found.groups, found.listed(), found.groups.lasting()
    for client, weights in zip(groups.clients, groups.weights, strict=True):
        if client not in listed:
            continue
        for group, weight in zip(groups.ids, weights, strict=True):
            yield {
                "client": client,
                "group": group,
                "membership": float(weight),
                "assigned": lasting.get(client) == group,
            }


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


def _or_blank(value: float | None) -> float | str:
    return "" if value is None else value
