"""Doing runs, N at a time, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from experiments.store import Run, failure_of

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
Child = subprocess.Popen[str]


def work(
    runs: Iterable[Run],
    *,
    jobs: int,
    commit: str,
    on_end: Callable[[Run, str], None],
    on_tick: Callable[[Sequence[Run]], None],
) -> None:
    """Do all runs, ``jobs`` at a time.

    ``on_end`` gets each run that ended, and why it failed or nothing; ``on_tick`` the
    runs under way, ten times a second. However this ends, no process is left.
    """
    waiting = deque(runs)
    children: list[tuple[Run, Child]] = []
    try:
        while waiting or children:
            while waiting and len(children) < jobs:
                run = waiting.popleft()
                children.append((run, _start(run, commit=commit)))
            time.sleep(POLL_SECONDS)
            for pair in [pair for pair in children if pair[1].poll() is not None]:
                children.remove(pair)
                run, child = pair
                on_end(run, _cause(run, child.returncode))
            on_tick([run for run, _ in children])
    finally:
        _stop([child for _, child in children])


def _start(run: Run, *, commit: str) -> Child:
    """Start the process of a run; the terminal's Ctrl-C is not for it."""
    run.log.parent.mkdir(parents=True, exist_ok=True)
    order = {
        "config": run.config,
        "identity": run.identity,
        "code": run.code,
        "data": run.data_key,
        "needs": sorted(run.needs),
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    threads = str(run.config["local.threads"])
    with run.log.open("w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "experiments.child"],
            cwd=run.out,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "FEDAPP_COMMIT": commit,
                "OMP_NUM_THREADS": threads,
                "OPENBLAS_NUM_THREADS": threads,
            },
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()
    except BrokenPipeError:  # it died at once: its exit code and its log say why
        pass
    return child


def _stop(children: Sequence[Child]) -> None:
    """End processes in order, or at once after a while or a second Ctrl-C."""
    deadline = time.monotonic() + STOP_SECONDS
    try:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        for child in children:
            child.kill()
            child.wait()


def _cause(run: Run, code: int) -> str:
    """Return why a run that ended failed, or nothing if it is finished."""
    if code == 0 and run.done:
        return ""
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    lines = run.log.read_text("utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return failure_of(run.folder) or last or f"its process ended with exit code {code}"
