"""The process of one run: takes its order from stdin and ends when that closes.

A runner that is killed closes the pipe, so that no run is left behind.
"""

import fcntl
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.hardware import hardware
from experiments.identity import code_of
from experiments.store import finished, record
from experiments.studies import Need, carry_out
from fedapp.checkpoint import Checkpoints
from fedapp.config import Flat
from fedapp.inline import run_inline
from fedapp.launch import interruptible, read_json

ORPHANED = 3


def main() -> None:
    """Do the run that a line of JSON on stdin orders, unless it is finished."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_runner, daemon=True).start()
    with interruptible():
        do(order)


def _end_with_runner() -> None:
    # Not sys.stdin: its lock would be held when the interpreter ends.
    while os.read(0, 1):
        pass
    os._exit(ORPHANED)


def do(order: Mapping[str, Any]) -> None:
    """Run ``order["config"]`` into its folder, alone, then the studies it ``needs``.

    An unfinished run goes on from its last round on disk. What is left of one that
    cannot go on is removed. A finished one is only studied.

    Raises
    ------
    RuntimeError
        If code or data are no longer those that the order names.
    """
    config, identity = order["config"], order["identity"]
    folder = Path(config["output.dir"]) / config["output.name"]
    with _alone(folder):
        if not finished(folder, identity):
            _run(order, folder)
        needs = [Need(*need) for need in order.get("needs", ())]
        if needs:
            _same_code(order)
        carry_out(folder, needs, data_path=str(config["data.path"]))


def _run(order: Mapping[str, Any], folder: Path) -> None:
    _same_code(order)
    if not _went_on(folder, order["config"]):
        if folder.exists():
            shutil.rmtree(folder)
        run_inline(order["config"])
    data = read_json(folder / "manifest.json")["key"]
    if data != order["data"]:
        raise RuntimeError("the data have changed since the runner was started")
    facts = {name: order[name] for name in ("identity", "code", "data")}
    record(folder, {**facts, "hardware": hardware()})


def _same_code(order: Mapping[str, Any]) -> None:
    if code_of(order["config"]["method"]) != order["code"]:
        raise RuntimeError("the code has changed since the runner was started")


def _went_on(folder: Path, config: Flat) -> bool:
    """Finish the run in ``folder``, if there is one that can go on."""
    if not Checkpoints(folder / "checkpoint").rounds():
        return False
    try:
        run_inline({**config, "output.resume": True})
    except ValueError as problem:
        print(f"{problem}\nThe run begins anew.", flush=True)
        return False
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process does this run; the lock ends with the process."""
    lock = folder.parent / "locks" / folder.name
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
