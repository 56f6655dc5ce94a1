"""Tensors kept on disk by owner and version: clients' memories, the server's bank.

A version is ``(round, step)``: the phase of a round that wrote it. What a round wrote
is in force once that round is committed; until then the version before it is still
there, so that an interrupted round can be done again from the same start.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedapp.files import TensorFile, write_tensors
from fedapp.params import Payload

Version = tuple[int, int]
START: Version = (0, 0)

_NAME = re.compile(r"r(\d{6})-(\d{2})\.safetensors")


class Versions:
    """One folder per owner, one file per version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(
        self, owner: str, version: Version, payload: Payload, **notes: str
    ) -> None:
        """Store ``payload`` as ``version`` of ``owner``, in one step."""
        write_tensors(self.path(owner, version), payload, **notes)

    def prune(
        self,
        owner: str,
        *,
        commits: Sequence[int],
        running: int,
        held: Version | None = None,
    ) -> int:
        """Delete what neither the ``running`` round nor any of ``commits`` needs.

        The running round needs its own versions and the newest one before it; a commit
        needs the newest version up to its round. Versions after ``held``, if that is
        given, are in no commit and are left alone. Return how many versions are left.
        """
        found = self._versions(owner)
        versions = [v for v in found if held is None or v <= held]
        needed = {v for v in versions if v[0] >= running}
        for commit in (*commits, running - 1):
            needed |= set([v for v in versions if v[0] <= commit][-1:])
        unneeded = set(versions) - needed
        for version in unneeded:
            self.path(owner, version).unlink(missing_ok=True)
        return len(found) - len(unneeded)

    def latest(self, owner: str, *, before: Version | None = None) -> TensorFile | None:
        """Return the newest version of ``owner``, below ``before`` if that is given."""
        found = [v for v in self._versions(owner) if before is None or v < before]
        return TensorFile(self.path(owner, found[-1])) if found else None

    def owners(self) -> list[str]:
        """Return all owners, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())

    def forget(self, *, after: int, owners: Iterable[str] | None = None) -> None:
        """Delete every version of a round later than ``after``, of all or of some."""
        for owner in self.owners() if owners is None else owners:
            for version in self._versions(owner):
                if version[0] > after:
                    self.path(owner, version).unlink(missing_ok=True)

    def drop(self, owner: str, *, after: Version, before: Version) -> None:
        """Delete the versions of ``owner`` between two others."""
        for version in self._versions(owner):
            if after < version < before:
                self.path(owner, version).unlink(missing_ok=True)

    def path(self, owner: str, version: Version) -> Path:
        """Return where a version is, or would be."""
        return self.folder / f"{owner}/r{version[0]:06}-{version[1]:02}.safetensors"

    def _versions(self, owner: str) -> list[Version]:
        home = self.folder / owner
        names = [entry.name for entry in home.iterdir()] if home.is_dir() else []
        matches = (_NAME.fullmatch(name) for name in names)
        return sorted((int(m[1]), int(m[2])) for m in matches if m)


def owner_name(client: int) -> str:
    """Return the folder name of a client, sorted like its number."""
    return f"{client:06}"
