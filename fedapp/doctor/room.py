"""Is there room on disk and in memory?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedapp.doctor import needs
from fedapp.doctor.finding import Finding, Level, size
from fedapp.doctor.needs import Plan

MARGIN = 0.8
STORE_SHARE = 0.3
STORE_FLOOR = 10**10
TEMPORARY_BYTES = 20 * 10**6
"""Logs and sockets of a run: 1 MB after half a minute, and they grow."""


@dataclass(frozen=True)
class Place:
    """A folder to write in: its disk, what is free there, and whether we may."""

    path: Path
    disk: int
    free: int
    writable: bool


@dataclass(frozen=True)
class Need:
    """What a place must hold for sure, and at most."""

    sure: int
    most: int


def disk_needs(plan: Plan | None, *, decoded: bool) -> dict[str, Need]:
    """Return what the run folder, the cache and the temporary folder must hold.

    ``decoded``: the data set lies in the cache already.
    """
    temporary = Need(TEMPORARY_BYTES, TEMPORARY_BYTES)
    if plan is None:
        return {"output.dir": Need(0, 0), "cache": Need(0, 0), "temporary": temporary}
    cache = 0 if decoded else needs.decoded_bytes(plan)
    return {
        "output.dir": Need(needs.sure_bytes(plan), needs.most_bytes(plan)),
        "cache": Need(cache, cache),
        "temporary": temporary,
    }


def check_disks(
    places: Mapping[str, Place], wanted: Mapping[str, Need]
) -> list[Finding]:
    """Compare each place with its need; places on one disk share what is free."""
    return [
        _check_place(name, place, wanted[name], _sum(place, places, wanted))
        for name, place in places.items()
    ]


def _sum(place: Place, places: Mapping[str, Place], wanted: Mapping[str, Need]) -> Need:
    same = [wanted[name] for name, other in places.items() if other.disk == place.disk]
    return Need(sum(need.sure for need in same), sum(need.most for need in same))


_MOVE = {
    "output.dir": "free some, or set output.dir to a folder on another disk",
    "cache": "free some, or set FEDAPP_CACHE to a folder on another disk",
    "temporary": "free some in the temporary folder",
}


def _check_place(name: str, place: Place, need: Need, total: Need) -> Finding:
    amount = size(need.most) if need.sure == need.most else f"at most {size(need.most)}"
    fact = f"{place.path}: {size(place.free)} free, {amount} needed"
    if not place.writable:
        fact = f"{place.path} cannot be written to"
        return Finding("problem", name, fact, f"make it writable, or {_MOVE[name]}")
    if total.sure > place.free:
        return Finding("problem", name, fact, _MOVE[name])
    if total.most > MARGIN * place.free:
        return Finding("warning", name, fact, _MOVE[name])
    return Finding("ok", name, fact)


def check_memory(plan: Plan, available: int) -> Finding:
    """Compare free memory with what server and workers need."""
    needed = needs.memory_bytes(plan)
    fact = (
        f"{size(available)} free, about {size(needed)} needed: "
        f"{size(needs.server_bytes(plan))} and {plan.workers} x "
        f"{size(needs.worker_bytes(plan))}"
    )
    if needed <= MARGIN * available:
        return Finding("ok", "memory", fact)
    left = MARGIN * available - needs.server_bytes(plan)
    fit = int(left // needs.worker_bytes(plan))
    advice = f"--workers {fit}" if fit >= 1 else "use a smaller model.name"
    level: Level = "problem" if needed > available else "warning"
    return Finding(level, "memory", fact, advice)


def check_shared_memory(shared: int | None, available: int) -> Sequence[Finding]:
    """Compare /dev/shm with the object store that Ray makes by itself.

    It takes 30 % of the memory, but no more than 95 % of /dev/shm or 10 GB, the larger
    of the two; where /dev/shm is smaller it takes a file in the temporary folder.
    """
    if shared is None:
        return []
    store = min(STORE_SHARE * available, max(STORE_FLOOR, 0.95 * shared))
    fact = f"{size(shared)} free, Ray's object store wants {size(store)}"
    if shared >= store:
        return [Finding("ok", "/dev/shm", fact)]
    return [
        Finding(
            "warning",
            "/dev/shm",
            f"{fact} and will use the temporary folder, which is slower",
            f"free some; in a container: docker run --shm-size={store / 1e9:.1f}gb",
        )
    ]
