"""Asking the disk for the next files while the present one is worked on.

Read one after another, 20,000 files wait for the disk 20,000 times. Told what comes
next, it fetches several at once. Where the system takes no hints, nothing is lost but
time.
"""

import os
from collections.abc import Iterable
from pathlib import Path

FILES = 16
BYTES = 32 * 2**20
"""At most so many files, or bytes, are asked for ahead."""

HEADER = 4096


class ReadAhead:
    """Hints for a sequence of files whose wanted bytes lie at about the same place."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = iter(paths)
        self._span = (0, 0)
        self._asked = 0
        self._used = 0

    def expect(self, span: tuple[int, int]) -> None:
        """Say which bytes of the files to come are wanted, besides the first ones."""
        self._span = span

    def step(self) -> None:
        """Say that the next file is about to be read."""
        start, end = self._span
        depth = max(1, min(FILES, BYTES // max(1, end - start)))
        while self._asked <= self._used + depth:
            path = next(self._paths, None)
            if path is None:
                break
            if self._asked > self._used:
                _ask(path, (0, HEADER), self._span)
            self._asked += 1
        self._used += 1


def _ask(path: Path, *spans: tuple[int, int]) -> None:
    if not hasattr(os, "posix_fadvise"):
        return
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Whoever reads it will say so.
    try:
        for start, end in spans:
            if end > start:
                length = end - start
                os.posix_fadvise(file, start, length, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(file)
