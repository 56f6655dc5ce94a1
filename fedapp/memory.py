"""Who a client is, and what it remembers between rounds in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedapp.algorithm import Memory
from fedapp.devices import EXAMPLE, OwnData, check_id, is_device
from fedapp.versions import Version, Versions, owner_name


@dataclass(frozen=True)
class Who:
    """What a node says of itself.

    ``name`` is its client id. ``clients`` is the size of a simulation, 0 on devices.
    ``data`` is what a device says of its own data, ``problem`` why it cannot take part,
    ``model`` the model of its own, if it has one.
    """

    name: str
    simulated: bool
    clients: int = 0
    data: OwnData | None = None
    problem: str = ""
    model: str = ""


def who_am_i(node: Mapping[str, bool | int | float | str]) -> Who:
    """Return who a node is, from its node config.

    A node with ``client-id`` or ``data-path`` is a device; any other is simulated and
    known by its partition.

    Raises
    ------
    ValueError
        If the node config says neither.
    """
    if is_device(node):
        name = str(node.get("client-id", node.get("partition-id", ""))).strip()
        check_id(name)
        return Who(name, simulated=False)
    if "partition-id" not in node:
        raise ValueError(
            "the node config has neither client-id nor partition-id; start the "
            f"SuperNode with {EXAMPLE}"
        )
    return Who(
        str(node["partition-id"]),
        simulated=True,
        clients=int(node.get("num-partitions", 0)),
    )


class MemoryStore(Protocol):
    """Where one client keeps its memory."""

    def load(self, before: Version) -> Memory:
        """Return the newest memory older than ``before``, empty if there is none."""

    def save(self, version: Version, memory: Memory) -> None:
        """Remember ``memory`` as of ``version``."""

    def drop(self, *, after: Version, before: Version) -> None:
        """Forget what was written between two versions: no round holds it."""


class FolderMemory:
    """A client's memory as files: survives crashes, never travels.

    ``commits`` are the rounds that a resumed run may go back to.
    """

    def __init__(
        self, folder: Path, client: int, *, commits: Sequence[int] = ()
    ) -> None:
        self._versions = Versions(folder)
        self._owner = owner_name(client)
        self._commits = commits

    def load(self, before: Version) -> Memory:
        """Return the newest memory older than ``before``, empty if there is none."""
        file = self._versions.latest(self._owner, before=before)
        return file.payload() if file is not None else {}

    def save(self, version: Version, memory: Memory) -> None:
        """Remember ``memory`` as of ``version``."""
        self._versions.write(self._owner, version, memory)
        self._versions.prune(self._owner, commits=self._commits, running=version[0])

    def drop(self, *, after: Version, before: Version) -> None:
        """Forget what was written between two versions: no round holds it."""
        self._versions.drop(self._owner, after=after, before=before)
