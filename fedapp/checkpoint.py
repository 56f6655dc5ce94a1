"""Committed rounds on disk: what a run needs to go on as if nothing had happened.

A commit is one small JSON file that names a round and what belongs to it: the tensor
files of params and state, the version of every bank row, the length of every table and
the books. Writing that file, by renaming it into place, is the commit. Everything
else is written before and beside what earlier commits name.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from logging import WARNING, getLogger
from pathlib import Path
from typing import Any

from fedapp.files import TensorFile, write_json, write_tensors
from fedapp.params import Params, Payload
from fedapp.versions import Version

log = getLogger("flwr")

VERSION = 1
KEPT = 2
"""Commits kept on disk: the newest, and the one before in case the newest is torn."""

_NAME = re.compile(r"r(\d{6})\.json")


@dataclass(frozen=True)
class Commit:
    """One committed round.

    ``bank`` has the round of every client's row, ``held`` the version of every client's
    memory, ``tables`` the length in bytes of every CSV file, ``books`` what the ledger
    remembers.
    """

    round: int
    params: Params
    state: Payload
    bank: Mapping[int, int]
    held: Mapping[int, Version]
    tables: Mapping[str, int]
    books: Mapping[str, Any]


class Checkpoints:
    """The commits of one run, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rounds(self) -> list[int]:
        """Return the committed rounds on disk, ascending."""
        names = [e.name for e in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(int(m[1]) for m in map(_NAME.fullmatch, names) if m)

    def write(self, commit: Commit) -> None:
        """Commit a round, then drop all commits but the last two."""
        parts = {"params": commit.params}
        write_tensors(self._path(commit.round, "-params.safetensors"), parts)
        write_tensors(self._path(commit.round, "-state.safetensors"), commit.state)
        facts = {
            "version": VERSION,
            "round": commit.round,
            "bank": {str(client): r for client, r in commit.bank.items()},
            "held": {str(client): v for client, v in commit.held.items()},
            "tables": dict(commit.tables),
            "books": dict(commit.books),
        }
        write_json(self._path(commit.round, ".json"), facts, indent=None)
        for old in self.rounds()[:-KEPT]:
            self._delete(old)

    def latest(self) -> Commit | None:
        """Return the newest whole commit and drop what is newer; None if there is none.

        Raises
        ------
        ValueError
            If there are commits, but none is whole.
        """
        rounds, problems = self.rounds(), []
        for round_ in reversed(rounds):
            try:
                commit = self.read(round_)
            except (ValueError, KeyError, TypeError, OSError) as error:
                problems.append(f"round {round_}: {error}")
                log.log(
                    WARNING, "the commit of round %s is not whole: %s", round_, error
                )
                continue
            if problems:
                log.log(WARNING, "going on from round %s instead", round_)
            for newer in (r for r in rounds if r > round_):
                self._delete(newer)
            return commit
        if problems:
            raise ValueError(
                f"no commit in {self.folder} is whole; start a new run. "
                + "; ".join(problems)
            )
        return None

    def read(self, round_: int) -> Commit:
        """Return one commit; nothing on disk changes.

        Raises
        ------
        ValueError, KeyError, TypeError, OSError
            If it is not whole.
        """
        facts = json.loads(self._path(round_, ".json").read_text("utf-8"))
        if not isinstance(facts, dict) or facts.get("version") != VERSION:
            raise ValueError(f"not a commit of version {VERSION}")
        if facts["round"] != round_:
            raise ValueError(f"it says it is of round {facts['round']}")
        return Commit(
            round=round_,
            params=TensorFile(self._path(round_, "-params.safetensors")).part("params"),
            state=TensorFile(self._path(round_, "-state.safetensors")).payload(),
            bank={int(client): int(r) for client, r in facts["bank"].items()},
            held={int(client): (v[0], v[1]) for client, v in facts["held"].items()},
            tables={str(name): int(size) for name, size in facts["tables"].items()},
            books=facts["books"],
        )

    def _path(self, round_: int, end: str) -> Path:
        return self.folder / f"r{round_:06}{end}"

    def _delete(self, round_: int) -> None:
        # The small file first: without it the others mean nothing.
        for end in (".json", "-params.safetensors", "-state.safetensors"):
            self._path(round_, end).unlink(missing_ok=True)
