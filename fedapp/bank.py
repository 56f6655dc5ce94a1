"""The bank: tensors the server keeps for each client, on disk.

A round reads what was committed before it began, so that the order of replies cannot
matter; ``fresh=True`` adds what the round itself has written. A row that cannot be
read counts as never written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging import WARNING, getLogger
from pathlib import Path
from typing import Literal

from torch import Tensor

from fedapp.files import TensorFile
from fedapp.params import Params, Payload
from fedapp.precision import to_half, to_single
from fedapp.read_ahead import ReadAhead
from fedapp.versions import Versions, owner_name

log = getLogger("flwr")

Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class Row:
    """What the bank keeps of one client: named parts, examples, round written."""

    client: int
    num_examples: int
    round: int
    file: TensorFile

    def part(self, name: str) -> dict[str, Tensor]:
        """Return one part, in the types in which it was given; no other is read.

        Raises
        ------
        ValueError
            If it is damaged. ``Bank.parts`` leaves such a row out instead.
        """
        tree = self.file.part(name)
        return to_single(tree) if "precision" in self.file.notes else tree


class Bank:
    """Rows by client; only the current round's writes are ever undone."""

    def __init__(self, folder: Path) -> None:
        self._versions = Versions(folder)
        self._committed: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._commits: tuple[int, ...] = ()
        self._several: set[int] = set()
        """Clients that may have more than one version on disk."""

    @classmethod
    def as_of(cls, folder: Path, rounds: Mapping[int, int]) -> "Bank":
        """Return the rows of a commit, to be read; nothing on disk changes."""
        bank = cls(folder)
        bank._committed = dict(rounds)
        return bank

    def write(
        self,
        client: int,
        payload: Payload,
        *,
        num_examples: int,
        round: int,
        precision: Precision = "float32",
    ) -> None:
        """Replace the row of ``client``, in force when ``round`` is committed.

        With ``float16``, float32 tensors take half the room and come back rounded;
        see ``to_half`` for those that are not.
        """
        notes = {"num_examples": str(num_examples)}
        if precision == "float16":
            notes["precision"] = precision
            payload, wide = to_half(payload)
            if wide:
                log.log(
                    WARNING,
                    "client %s: %s kept in float32 in the bank, since float16 ends at "
                    "65504",
                    client,
                    ", ".join(wide),
                )
        owner = owner_name(client)
        self._versions.write(owner, (round, 0), payload, **notes)
        self._versions.prune(owner, commits=self._commits, running=round)
        self._written[client] = round
        self._several.add(client)

    def read(self, client: int, *, fresh: bool = False) -> Row | None:
        """Return the row of ``client``, or None if it has none or its file is torn."""
        round_ = self._round(client, fresh)
        if round_ is None:
            return None
        return self._open(client, round_, self._path(client, round_))

    def parts(
        self, clients: Sequence[int], part: str, *, fresh: bool = False
    ) -> Iterator[tuple[Row, Params]]:
        """Yield rows with one part each, in the order of ``clients``.

        Clients without a row are left out, and so are damaged rows: a warning names
        the client, which counts as never seen until it is written again. One row is in
        memory at a time; the disk is asked for the next ones ahead.
        """
        rounds = ((client, self._round(client, fresh)) for client in clients)
        found = [
            (client, round_, self._path(client, round_))
            for client, round_ in rounds
            if round_ is not None
        ]
        ahead = ReadAhead(path for *_, path in found)
        for client, round_, path in found:
            ahead.step()
            row = self._open(client, round_, path)
            if row is None:
                continue
            ahead.expect(row.file.span(part))
            try:
                tree = row.part(part)
            except ValueError as error:
                self._lose(client, error)
                continue
            yield row, tree

    def clients(self, *, fresh: bool = False) -> list[int]:
        """Return the clients that have a row, in order."""
        return sorted(self.rounds if fresh else self._committed)

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
        for client in sorted(self._several):
            left = self._versions.prune(
                owner_name(client), commits=commits, running=round + 1
            )
            if left < 2:
                self._several.remove(client)

    def restore(self, rounds: Mapping[int, int], *, committed: int) -> None:
        """Take up the rows of the ``committed`` round, and drop all newer files."""
        self._committed, self._written = dict(rounds), {}
        self._commits = (committed,)
        self._several = set(rounds)
        self._versions.forget(after=committed)

    def _round(self, client: int, fresh: bool) -> int | None:
        written = self._written.get(client) if fresh else None
        return self._committed.get(client) if written is None else written

    def _path(self, client: int, round_: int) -> Path:
        return self._versions.path(owner_name(client), (round_, 0))

    def _open(self, client: int, round_: int, path: Path) -> Row | None:
        try:
            file = TensorFile(path)
            return Row(client, int(file.notes["num_examples"]), round_, file)
        except (ValueError, KeyError) as error:
            self._lose(client, error)
            return None

    def _lose(self, client: int, error: Exception) -> None:
        """Forget a row that cannot be read."""
        self._committed.pop(client, None)
        self._written.pop(client, None)
        log.log(
            WARNING,
            "client %s: its row of the bank cannot be used, so that it counts as never "
            "seen until it trains again: %s",
            client,
            error,
        )
