"""The bank: tensors the server keeps for each client, on disk.

A round reads what was committed before it began, so that the order of replies cannot
matter; ``fresh=True`` adds what the round itself has written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fedapp.files import TensorFile
from fedapp.params import Payload
from fedapp.versions import Versions, owner_name


@dataclass(frozen=True)
class Row:
    """What the bank keeps of one client: named parts, examples, round written."""

    client: int
    num_examples: int
    round: int
    file: TensorFile

    def part(self, name: str) -> dict[str, Tensor]:
        """Return one part, memory-mapped; the others are not read."""
        return self.file.part(name)


class Bank:
    """Rows by client; only the current round's writes are ever undone."""

    def __init__(self, folder: Path) -> None:
        self._versions = Versions(folder)
        self._committed: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._commits: tuple[int, ...] = ()

    @classmethod
    def as_of(cls, folder: Path, rounds: Mapping[int, int]) -> "Bank":
        """Return the rows of a commit, to be read; nothing on disk changes."""
        bank = cls(folder)
        bank._committed = dict(rounds)
        return bank

    def write(
        self, client: int, payload: Payload, *, num_examples: int, round: int
    ) -> None:
        """Replace the row of ``client``, in force when ``round`` is committed."""
        notes = {"num_examples": str(num_examples)}
        owner = owner_name(client)
        self._versions.write(owner, (round, 0), payload, **notes)
        self._versions.prune(owner, commits=self._commits, running=round)
        self._written[client] = round

    def read(self, client: int, *, fresh: bool = False) -> Row | None:
        """Return the row of ``client``, or None if it has none."""
        round_ = self._index(fresh).get(client)
        if round_ is None:
            return None
        file = self._versions.latest(owner_name(client), before=(round_ + 1, 0))
        assert file is not None
        return Row(client, int(file.notes["num_examples"]), round_, file)

    def clients(self, *, fresh: bool = False) -> list[int]:
        """Return the clients that have a row, in order."""
        return sorted(self._index(fresh))

    def discard(self) -> None:
        """Forget what was written since the last commit, as a stopped round did."""
        for client, round_ in self._written.items():
            # Left there, it would push out the row in force at the next writing.
            start = (round_, -1)
            self._versions.drop(owner_name(client), after=start, before=(round_, 1))
        self._written = {}

    @property
    def rounds(self) -> dict[int, int]:
        """The round of every row, those of this round included."""
        return self._committed | self._written

    def commit(self, round: int, *, commits: Sequence[int] = ()) -> None:
        """Put this round's writes in force.

        ``commits`` are the rounds on disk that a resumed run may go back to; rows that
        neither they nor the next round need are deleted.
        """
        self._committed, self._written = self.rounds, {}
        self._commits = tuple(commits)
        for client in self._committed:
            owner = owner_name(client)
            self._versions.prune(owner, commits=commits, running=round + 1)

    def restore(self, rounds: Mapping[int, int], *, committed: int) -> None:
        """Take up the rows of the ``committed`` round, and drop all newer files."""
        self._committed, self._written = dict(rounds), {}
        self._commits = (committed,)
        self._versions.forget(after=committed)

    def _index(self, fresh: bool) -> dict[int, int]:
        return self._committed | self._written if fresh else self._committed
