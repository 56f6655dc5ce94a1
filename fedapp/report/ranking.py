"""The order in which clients are shown, and which of them is the worst."""

from collections.abc import Iterable, Sequence

from fedapp.report.parts import ClientResult


def lowest_first(clients: Iterable[ClientResult]) -> list[ClientResult]:
    """Return clients by accuracy, equals by number."""
    return sorted(clients, key=lambda c: (c.accuracy, c.client))


def apart(
    clients: Sequence[ClientResult], *, unseen_from: int
) -> tuple[list[ClientResult], list[ClientResult]]:
    """Return seen and unseen clients, each lowest first."""
    seen = [c for c in clients if c.client < unseen_from]
    unseen = [c for c in clients if c.client >= unseen_from]
    return lowest_first(seen), lowest_first(unseen)


def counted(clients: Sequence[ClientResult], *, unseen_from: int) -> list[ClientResult]:
    """Return those that worst, bottom 20 % and gap are taken over, lowest first.

    Unseen clients never are, clients that never trained only if nobody did.
    """
    seen, _ = apart(clients, unseen_from=unseen_from)
    return [c for c in seen if c.trained] or seen
