"""What a run keeps on disk between rounds: the bank, and one commit for each round."""

import tempfile
from pathlib import Path

from fedapp.bank import Bank
from fedapp.checkpoint import Checkpoints, Commit
from fedapp.run_folder import RunFolder
from fedapp.versions import Version, Versions, owner_name


class Storage:
    """The bank and the commits of a run folder; without one, a bank that passes."""

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self._held: dict[int, Version] = {}
        self._several: set[int] = set()
        """Clients that may have more than one version of their memory."""
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="fedapp-bank-")
            self.bank = Bank(Path(self._temporary.name))
        else:
            self.bank = Bank(folder.path / "bank")
            self._checkpoints = Checkpoints(folder.path / "checkpoint")
            self._memory = Versions(folder.path / "memory")

    def commits(self) -> list[int]:
        """Return the rounds on disk that a resumed run may go back to."""
        return self._checkpoints.rounds() if self.folder is not None else []

    def take_up(self) -> Commit | None:
        """Return the newest whole commit, if there is one, and undo what is newer."""
        if self.folder is None:
            return None
        commit = self._checkpoints.latest()
        self.folder.truncate(commit.tables if commit is not None else {})
        done = commit.round if commit is not None else 0
        self.bank.restore(commit.bank if commit is not None else {}, committed=done)
        self._memory.forget(after=done)
        return commit

    def write(self, commit: Commit) -> None:
        """Make a round durable, and delete what no commit needs any more."""
        if self.folder is None:
            return
        self._checkpoints.write(commit)
        commits = self.commits()
        self.bank.commit(commit.round, commits=commits)
        held = commit.held
        self._several |= {c for c, v in held.items() if self._held.get(c) != v}
        self._held = dict(held)
        for client in sorted(self._several):
            left = self._memory.prune(
                owner_name(client),
                commits=commits,
                running=commit.round + 1,
                held=held[client],
            )
            if left < 2:
                self._several.remove(client)
