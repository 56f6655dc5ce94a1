"""Devices that die, come back, or sleep."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deployment.federation import Federation

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(600)]


@pytest.fixture
def devices(
    start: Callable[[], Federation], images: dict[str, Path]
) -> tuple[Federation, Callable[[str], None]]:
    found = start()

    def add(name: str) -> None:
        found.add_device(name, images[name], memory_path=str(found.scratch / "anna"))

    for name in images:
        add(name)
    return found, add


def test_a_device_killed_in_a_round_goes_on_from_its_memory(devices) -> None:
    federation, add = devices
    settings = {"rounds.min-replies": 1.0, "rounds.reply-seconds": 200.0}
    calm = federation.run("fedper", "calm", **settings)
    assert calm["status"] == "completed"

    folder = federation.start_run("fedper", "storm", **settings)
    federation.await_round(folder, 1)
    before = federation.memories("storm")["ben"]
    federation.kill("ben")
    add("ben")
    storm = federation.finish(folder)

    assert (storm["status"], storm["rounds"]) == ("completed", 2)
    assert {f["client"] for f in storm["failures"]} == {1}
    assert "It is repeated" in federation.log("storm")
    # The round that was repeated gave what it gives undisturbed, on both devices: it
    # began with the heads of round 1, not with what the failed attempt left.
    after = federation.memories("storm")
    assert after["ben"].items() >= before.items()
    assert after == federation.memories("calm")
    assert storm["accuracy"] == calm["accuracy"]
    final = "final/params.safetensors"
    assert (folder / final).read_bytes() == (
        folder.with_name("calm") / final
    ).read_bytes()


def test_a_device_that_sleeps_is_dropped_and_named_and_the_round_goes_on(
    devices,
) -> None:
    federation, _ = devices
    settings = {"rounds.reply-seconds": 45.0, "rounds.count": 3}
    folder = federation.start_run("fedper", "sleepy", **settings)
    federation.await_round(folder, 1)
    federation.signal("ben", signal.SIGSTOP)
    federation.await_round(folder, 2)
    federation.signal("ben", signal.SIGCONT)
    summary = federation.finish(folder)

    assert (summary["status"], summary["rounds"]) == ("completed", 3)
    missed = [(f["round"], f["phase"]) for f in summary["failures"]]
    assert missed[:2] == [(2, "train"), (2, "evaluate")]
    assert {f["client"] for f in summary["failures"]} == {1}
    assert "reply of client ben dropped: " in federation.log("sleepy")
