"""The formulas, by hand."""

from dataclasses import replace

from fedapp.data.clients import ClientCache
from fedapp.doctor import needs
from fedapp.doctor.needs import Plan
from fedapp.post import IN_FLIGHT

MB = 10**6
PLAN = Plan(
    model=40 * MB, pixels=3072, samples=60_000, used=1000, clients=20, workers=3, cpus=4
)


def test_decoded_data():
    assert needs.decoded_bytes(PLAN) == 60_000 * (3072 + 8 + 8 + 1)


def test_run_folder():
    assert needs.sure_bytes(PLAN) == 40 * MB
    assert needs.most_bytes(PLAN) == (2 * 20 + 2 * 20 + 2) * 40 * MB


def test_messages_under_way():
    # 256 MiB hold 6 of 40 MB, but 4 CPUs are kept busy with 8.
    assert needs.window_bytes(PLAN) == 8 * 40 * MB
    assert needs.window_bytes(replace(PLAN, clients=5)) == 5 * 40 * MB
    assert needs.window_bytes(replace(PLAN, model=10 * MB)) == 20 * 10 * MB
    assert needs.window_bytes(replace(PLAN, model=MB, clients=99)) == 64 * MB


def test_memory():
    worker = needs.WORKER_BYTES + 5 * 40 * MB + 4 * 1000 * 3072
    server = needs.SERVER_BYTES + 4 * 40 * MB + 2 * 8 * 40 * MB

    assert needs.worker_bytes(PLAN) == worker
    assert needs.memory_bytes(PLAN) == server + 3 * worker


def test_a_worker_keeps_a_bounded_share_of_the_data():
    full = needs.WORKER_BYTES + 5 * 40 * MB + 256 * 2**20

    assert needs.worker_bytes(replace(PLAN, used=60_000)) == full


def test_bounds_are_those_of_the_code_they_are_about():
    assert needs.IN_FLIGHT == IN_FLIGHT
    assert ClientCache()._limit == needs.CLIENT_CACHE
