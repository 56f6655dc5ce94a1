from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deployment.federation import Federation, federation, make_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two folders of digits, all classes in both, nothing in common."""
    base = tmp_path_factory.mktemp("images")
    return {
        "anna": make_images(base / "anna", first=0),
        "ben": make_images(base / "ben", first=300),
    }


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], Federation]]:
    """Start federations; all are gone when the module's tests are."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            federation(tmp_path_factory.mktemp("federation"))
        )


@pytest.fixture(scope="module")
def pair(
    start: Callable[[], Federation],
    images: dict[str, Path],
) -> Federation:
    """Two devices: anna, whose memory has a folder, and ben, whose has the default."""
    found = start()
    found.add_device("anna", images["anna"], memory_path=str(found.scratch / "anna"))
    found.add_device("ben", images["ben"])
    return found
