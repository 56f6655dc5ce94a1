"""Disk and memory against needs."""

from pathlib import Path

import pytest

from fedapp.doctor import needs
from fedapp.doctor.needs import Plan
from fedapp.doctor.room import (
    Need,
    Place,
    check_disks,
    check_memory,
    check_shared_memory,
    disk_needs,
)

GB = 10**9
PLAN = Plan(
    model=GB // 10, pixels=100, samples=10, used=10, clients=10, workers=4, cpus=4
)


def place(disk: int, free: int, *, writable: bool = True) -> Place:
    return Place(Path("/x"), disk, free, writable)


@pytest.mark.parametrize(
    ("free", "level"), [(9, "problem"), (11, "warning"), (24, "warning"), (26, "ok")]
)
def test_sure_needs_are_problems_and_possible_ones_warnings(free, level):
    (finding,) = check_disks(
        {"output.dir": place(1, free)}, {"output.dir": Need(10, 20)}
    )

    assert finding.level == level
    assert "at most 20 bytes needed" in finding.fact


def test_places_on_one_disk_share_what_is_free():
    wanted = {"output.dir": Need(60, 60), "cache": Need(60, 60)}
    one = {"output.dir": place(1, 100), "cache": place(1, 100)}
    two = {"output.dir": place(1, 100), "cache": place(2, 100)}

    assert {f.level for f in check_disks(one, wanted)} == {"problem"}
    assert {f.level for f in check_disks(two, wanted)} == {"ok"}


def test_a_place_that_cannot_be_written_to():
    places = {"cache": place(1, 100, writable=False)}

    (finding,) = check_disks(places, {"cache": Need(0, 0)})

    assert finding.level == "problem"
    assert "FEDAPP_CACHE" in finding.advice


def test_a_decoded_data_set_needs_no_more_room():
    assert disk_needs(PLAN, decoded=True)["cache"] == Need(0, 0)
    assert disk_needs(PLAN, decoded=False)["cache"] == Need(1170, 1170)
    assert disk_needs(PLAN, decoded=True)["output.dir"] == Need(GB // 10, 42 * GB // 10)


def test_memory_says_how_many_workers_fit():
    two = needs.server_bytes(PLAN) + 2 * needs.worker_bytes(PLAN)

    finding = check_memory(PLAN, int(1.01 * two / 0.8))

    assert finding.level == "problem"
    assert finding.advice == "--workers 2"


def test_memory_that_is_enough_tight_or_hopeless():
    needed = needs.memory_bytes(PLAN)

    assert check_memory(PLAN, 2 * needed).level == "ok"
    assert check_memory(PLAN, int(1.1 * needed)).level == "warning"
    assert "model.name" in check_memory(PLAN, GB // 10).advice


@pytest.mark.parametrize(
    ("shared", "level"),
    [(64 * 10**6, "warning"), (5 * GB, "warning"), (7 * GB, "ok"), (24 * GB, "ok")],
)
def test_shared_memory(shared, level):
    # Of 20 GB Ray takes 6 GB.
    (finding,) = check_shared_memory(shared, 20 * GB)

    assert finding.level == level


def test_rays_store_is_no_larger_than_a_large_shared_memory():
    # Of 100 GB Ray would take 30 GB, but takes 19.
    assert check_shared_memory(20 * GB, 100 * GB)[0].level == "ok"
    assert check_shared_memory(9 * GB, 100 * GB)[0].level == "warning"
    assert check_shared_memory(None, 100 * GB) == []
