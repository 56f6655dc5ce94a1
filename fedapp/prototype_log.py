"""What the rounds of a prototype method show: drift, angles, means over clients."""

from collections.abc import Mapping, Sequence

from torch import rad2deg, triu_indices

from fedapp.prototypes import EPSILON, Bank, unit

MEASURED = ("entropy", "alignment", "separation")
"""Terms whose gradients clients measure."""

Report = tuple[Mapping[str, int | float], int]
"""The metrics of one reply, and its number of examples."""


def drift(before: Bank, after: Bank) -> float | None:
    """Return how far prototypes moved, relative to their length; None if none did.

    The mean over classes that were known before.
    """
    both = before.known & after.known
    if not both.any():
        return None
    old, new = before.values[both].double(), after.values[both].double()
    moved = (new - old).norm(dim=1) / old.norm(dim=1).clamp(min=EPSILON)
    return float(moved.mean())


def angles(bank: Bank) -> tuple[float, float] | None:
    """Return mean and smallest angle between known prototypes, in degrees."""
    rows = unit(bank.values[bank.known].double())
    if len(rows) < 2:
        return None
    above = triu_indices(len(rows), len(rows), offset=1)
    cosines = (rows @ rows.T)[above[0], above[1]].clamp(-1, 1)
    degrees = rad2deg(cosines.arccos())
    return float(degrees.mean()), float(degrees.min())


def mean_metric(reports: Sequence[Report], name: str) -> float | None:
    """Return the mean of a metric over replies that have it, weighted by examples."""
    have = [(metrics[name], count) for metrics, count in reports if name in metrics]
    total = sum(count for _, count in have)
    return sum(value * count for value, count in have) / total if total else None


def round_row(
    round_: int,
    *,
    lam: float,
    full: float,
    before: Bank,
    after: Bank,
    reports: Sequence[Report],
) -> dict[str, int | float | str]:
    """Return one row of ``rounds.csv``; what is not known is left blank.

    ``full`` is the weight of the alignment when no schedule holds it back.
    """
    between = angles(after) or (None, None)
    row = {
        "round": round_,
        "clients": len(reports),
        "known": int(after.known.sum()),
        "lam": lam,
        "full_lam": full,
        **{f"{n}_gradient": mean_metric(reports, f"{n}-gradient") for n in MEASURED},
        "spread": mean_metric(reports, "spread"),
        "drift": drift(before, after),
        "angle_mean": between[0],
        "angle_min": between[1],
    }
    return {name: "" if value is None else value for name, value in row.items()}
