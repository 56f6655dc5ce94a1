"""What is refused at registration: each error names whose it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deployment.federation import Federation, make_images

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]


@pytest.fixture
def anna(start: Callable[[], Federation], images: dict[str, Path]) -> Federation:
    found = start()
    found.add_device("anna", images["anna"])
    return found


def refusal(federation: Federation, clients: int = 2, wait: float = 60.0) -> str:
    changed = {"data.clients": clients, "rounds.wait-seconds": wait}
    summary = federation.run("fedavg", **changed)
    assert summary["status"] == "failed"
    assert summary["rounds"] == 0
    return summary["error"]


def test_an_id_is_taken(anna: Federation, images: dict[str, Path]) -> None:
    anna.add("ben", client_id="anna", data_path=str(images["ben"]))
    assert "two nodes say they are client 'anna'" in refusal(anna)


def test_classes_have_other_names(anna: Federation, tmp_path: Path) -> None:
    other = make_images(tmp_path / "ben", first=300, label=lambda i: f"digit {i}")
    anna.add_device("ben", other)
    error = refusal(anna)
    assert "devices have different data" in error
    assert "'anna': 1x8x8 images, 10 classes" in error
    assert "'ben': 1x8x8 images, 10 classes" in error
    assert "device 'ben' has the classes digit 0, digit 1" in anna.log("ben")
    assert "digit 0" not in anna.log("run")


def test_images_have_another_size(anna: Federation, tmp_path: Path) -> None:
    anna.add_device("ben", make_images(tmp_path / "ben", first=300, size=9))
    assert "'ben': 1x9x9 images, 10 classes" in refusal(anna)


def test_a_node_belongs_to_another_app(anna: Federation) -> None:
    anna.add("other", partition_id=0, num_partitions=2)
    assert "'anna' is a device, but node '0' has neither" in refusal(anna)


def test_devices_are_missing_or_cannot_take_part(
    anna: Federation, images: dict[str, Path], tmp_path: Path
) -> None:
    anna.add("ben", client_id="ben")
    anna.add("cleo", client_id="cleo", data_path=str(tmp_path / "nowhere"))
    anna.add("dora", client_id="d/ora", data_path=str(images["ben"]))
    error = refusal(anna, clients=5, wait=30.0)
    assert error.startswith("1 clients are there, but data.clients = 5")
    assert "there: anna" in error
    assert "device 'ben' has no data-path" in error
    assert "client 'cleo': its data cannot be used" in error
    assert "client-id 'd/ora'" in error
    assert "nowhere" not in error
    assert "nowhere' does not exist" in anna.log("cleo")
