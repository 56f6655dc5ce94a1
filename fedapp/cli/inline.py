"""Running the inline engine under the command line."""

import logging
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from fedapp import launch
from fedapp.cli.plan import Plan
from fedapp.config import defaults
from fedapp.launch import OnPoll


def run_here(plan: Plan, on_poll: OnPoll) -> None:
    """Run in this process and thread; another thread watches the run folder."""
    from fedapp.inline import run_inline

    done = threading.Event()
    progress = plan.run_dir / "progress.json"

    def watch() -> None:
        while not done.wait(launch.POLL_SECONDS):
            on_poll(launch.read_json(progress))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with _log_kept(plan.run_dir):
            run_inline({**defaults(), **plan.overrides})
    finally:
        done.set()
        watcher.join()
        on_poll(launch.read_json(progress))


@contextmanager
def _log_kept(run_dir: Path) -> Iterator[None]:
    """Send Flower's log, and what ends the run, to log.txt instead of the terminal."""
    text = StringIO()
    log = logging.getLogger("flwr")
    before, log.handlers = log.handlers, [logging.StreamHandler(text)]
    try:
        yield
    except BaseException:
        text.write(traceback.format_exc())
        raise
    finally:
        log.handlers = before
        if run_dir.is_dir():
            launch.log_file(run_dir).write_text(text.getvalue(), "utf-8")
