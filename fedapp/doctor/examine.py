"""The whole examination: facts gathered, checks made, findings in order."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from fedapp.config import Settings
from fedapp.doctor import gather
from fedapp.doctor.finding import Finding
from fedapp.doctor.flower import (
    LOCAL_PORT,
    check_port,
    check_superlink,
    check_variables,
)
from fedapp.doctor.hardware import check_cluster, check_cpus, check_gpus
from fedapp.doctor.needs import Plan
from fedapp.doctor.room import (
    check_disks,
    check_memory,
    check_shared_memory,
    disk_needs,
)
from fedapp.doctor.software import check_python, check_versions


def installation() -> list[Finding]:
    """Return what is to be said of Python and packages."""
    python, packages = gather.wanted()
    return [
        check_python(platform.python_version(), python),
        *check_versions(packages, gather.installed(list(packages))),
    ]


def machine(settings: Settings, *, workers: int | None, ray: bool) -> Iterator[Finding]:
    """Yield what is to be said of this machine, given settings.

    ``workers`` as for a run, None for all CPUs; ``ray``: start Ray and ask it.
    """
    cpus = os.cpu_count() or 1
    count = workers or min(cpus, settings.data.clients)
    yield check_cpus(present=cpus, usable=gather.usable_cpus(), workers=count)
    yield from check_gpus(gather.gpus(), device=settings.local.device)
    if ray:
        yield _cluster()
    listens = gather.answers(LOCAL_PORT)
    yield check_superlink(
        listens=listens, owner=gather.port_owner() if listens else None
    )
    yield check_port(gather.free_port())
    yield from check_variables(os.environ)
    yield from _data_and_room(settings, workers=count, cpus=cpus)


def _cluster() -> Finding:
    try:
        found = gather.cluster()
    except Exception as error:  # whatever Ray raises is the finding
        return Finding("problem", "Ray", f"does not start: {error}")
    return check_cluster(cpus=found.get("CPU", 0.0), gpus=found.get("GPU", 0.0))


def _data_and_room(settings: Settings, *, workers: int, cpus: int) -> Iterator[Finding]:
    from fedapp.doctor.images import Look, check_data, look
    from fedapp.doctor.planned import planned
    from fedapp.workplace import cache_folder

    found: Look | ValueError | None
    try:
        found = look(settings.data, cache_folder())
    except ValueError as error:
        found = error
    yield check_data(settings.data, found)
    plan: Plan | None = None
    decoded = False
    if isinstance(found, Look):
        try:
            plan = planned(settings, found, workers=workers, cpus=cpus)
        except ValueError as error:  # images too small for the network
            yield Finding("problem", "model.name", str(error))
        decoded = gather.is_decoded(
            cache_folder(), settings.data.name, (found.samples, *found.image)
        )
    places = {
        "output.dir": gather.place(Path(settings.output.dir)),
        "cache": gather.place(cache_folder()),
        "temporary": gather.place(gather.temporary_folder()),
    }
    yield from check_disks(places, disk_needs(plan, decoded=decoded))
    available = gather.available_memory()
    if available is not None:
        if plan is not None:
            yield check_memory(plan, available)
        yield from check_shared_memory(gather.shared_memory(), available)
