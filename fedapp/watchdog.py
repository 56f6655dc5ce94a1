"""Noticing that the process that launched the run is gone, however it went.

``fedapp run`` says who it is in ``FEDAPP_PARENT``, and a guard of its own ends
everything when it dies (fedapp/launch/guard.py). Server app and workers watch too, in
case the guard died with it. Under plain ``flwr run`` and on devices there is no such
variable and nothing is watched.
"""

import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fedapp.proc import runs

PARENT = "FEDAPP_PARENT"
EVERY_SECONDS = 1.0
GRACE_SECONDS = 8.0
"""How long a worker goes on, so that the server app can end the run in order."""


def orphaned() -> bool:
    """Return whether there was a launching process and it is gone."""
    parent = os.environ.get(PARENT)
    return bool(parent) and not runs(str(parent))


@functools.cache
def watch(then: Callable[[], None]) -> None:
    """Call ``then`` when the launching process has gone; one watch for each."""
    if os.environ.get(PARENT):
        threading.Thread(target=_watch, args=(then,), daemon=True).start()


def _watch(then: Callable[[], None]) -> None:
    while not orphaned():
        time.sleep(EVERY_SECONDS)
    then()


def end_worker() -> None:
    """End this process after a grace, whatever it is doing."""
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def end_run(run_dir: Path) -> None:
    """Have all processes of the run ended, and what is left of it cleaned up."""
    from fedapp.launch.guard import start_second_guard

    start_second_guard(Path(os.environ["FLWR_HOME"]).parent, run_dir)
