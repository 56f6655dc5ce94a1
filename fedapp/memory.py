"""Who a client is, and what it remembers between rounds in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedapp.algorithm import Memory
from fedapp.versions import Version, Versions, owner_name


@dataclass(frozen=True)
class Who:
    """What a node says of itself.

    ``name`` is its client id. ``clients`` is the size of a simulation, 0 on devices.
    ``images`` is (channels, height, width, classes) of a device's own data, or empty.
    """

    name: str
    simulated: bool
    clients: int = 0
    images: tuple[int, ...] = ()


def who_am_i(node: Mapping[str, bool | int | float | str]) -> Who:
    """Return who a node is, from its node config.

    A node with ``client-id`` or ``data-path`` is a device; any other is simulated and
    known by its partition.

    Raises
    ------
    ValueError
        If the node config says neither.
    """
    if "client-id" in node or "data-path" in node:
        name = str(node.get("client-id", node.get("partition-id", ""))).strip()
        if not name or "/" in name or name.startswith("."):
            raise ValueError(
                f"client-id {name!r} in the node config: give each device a short id "
                "of its own, without slashes"
            )
        return Who(name, simulated=False)
    if "partition-id" not in node:
        raise ValueError(
            "the node config has neither client-id nor partition-id; start the "
            'SuperNode with --node-config \'client-id="a" data-path="/folder"\''
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
