"""Opening the bench of a run, with its folder held so that nobody works in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedapp.bank import Bank
from fedapp.checkpoint import Checkpoints
from fedapp.config import build
from fedapp.files import sha256
from fedapp.hdc.refresh_state import groups_of, snapshot_of
from fedapp.ledger import EVALUATE
from fedapp.methods import table
from fedapp.run_folder import locked
from fedapp.study.bench import Bench
from fedapp.study.place import (
    HDC_FL,
    Place,
    StudyError,
    find,
    manifest_of,
    settings_of,
)
from fedapp.workplace import prepare_process


def open_bench(place: Place) -> Bench:
    """Return the bench of a place; threads and kernels are set as in a client.

    Raises
    ------
    StudyError
        If the commit is damaged, has no groups yet, or groups of too many clients.
    """
    settings, manifest = settings_of(place.path), manifest_of(place.path)
    prepare_process(settings, seed=settings.seed)
    try:
        commit = Checkpoints(place.path / "checkpoint").read(place.round)
        bank = Bank.as_of(place.path / "bank", commit.bank)
        gone = [client for client in bank.clients() if bank.read(client) is None]
        if gone:
            raise ValueError(
                f"a row of its bank is gone or damaged, of client {gone[0]}"
            )
    except (ValueError, KeyError, TypeError, OSError, AssertionError) as error:
        raise StudyError(
            f"the commit of round {place.round} in {place.path} is not whole: {error}"
        ) from None
    groups, snapshot = groups_of(commit.state), snapshot_of(commit.state)
    if groups is None or snapshot is None:
        raise StudyError(
            f"{place.path} has no groups as of round {place.round}: there was no "
            "refresh yet (hdc-fl.refresh-every), or fewer than four clients have sent "
            "a head"
        )
    if not snapshot.complete:
        raise StudyError(
            f"{place.path} has {len(snapshot.clients)} grouped clients, of which "
            f"{len(snapshot.sampled)} were compared with each other: other memberships "
            "are not known without comparing all"
        )
    return Bench(
        place=place,
        settings=settings,
        manifest=manifest,
        commit=commit,
        bank=bank,
        groups=groups,
        snapshot=snapshot,
        algorithm=build(table()[HDC_FL].client, settings.table),
        cfg={
            "run-dir": str(place.path),
            "cache-dir": str(place.cache),
            "manifest": sha256(manifest.to_json()),
            "phase": EVALUATE,
            "round": commit.round,
        },
    )


@contextmanager
def held_bench(
    path: Path, *, round: int | None = None, data_path: str = ""
) -> Iterator[Bench]:
    """Give the bench of a run; meanwhile nobody else works in its folder.

    Arguments are those of ``find``.

    Raises
    ------
    StudyError
        If the run is going on, or cannot be studied.
    """
    path = path.expanduser().absolute()
    settings_of(path)
    try:
        lock = locked(path)
    except RuntimeError as error:
        raise StudyError(str(error)) from None
    try:
        yield open_bench(find(path, round=round, data_path=data_path))
    finally:
        lock.release()
