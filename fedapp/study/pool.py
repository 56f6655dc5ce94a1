"""Work on a bench spread over processes, with the same results for any number."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeVar

from fedapp.study.bench import Bench
from fedapp.study.opening import open_bench
from fedapp.study.place import Place, StudyError

J = TypeVar("J")
R = TypeVar("R")

PAYS = 15.0
"""Seconds of work left from which starting processes pays: each takes about five."""

_bench: Bench | None = None


def cores(bench: Bench) -> int:
    """Return how many processes this machine has cores for."""
    return max(1, (os.cpu_count() or 1) // bench.settings.local.threads)


def spread(
    work: Callable[[Bench, J], R],
    jobs: Sequence[J],
    bench: Bench,
    *,
    processes: int | None,
) -> Iterator[R]:
    """Yield ``work(bench, job)`` for each job, in order.

    ``processes`` of None takes the cores there are, once the first job has shown that
    there is enough to do. Each process builds a bench of its own from the place;
    ``work`` is a function of a module.

    Raises
    ------
    StudyError
        If a process ends before its time.
    """
    left = list(jobs)
    if processes is None and left:
        started = time.monotonic()
        yield work(bench, left.pop(0))
        total = (time.monotonic() - started) * len(left)
        processes = cores(bench) if total > PAYS else 1
    count = min(processes or 1, len(left))
    if count <= 1:
        yield from (work(bench, job) for job in left)
        return
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(bench.place,),
    )
    try:
        yield from pool.map(partial(_do, work), left)
    except BrokenProcessPool:
        raise StudyError(
            "a process ended before its time (out of memory?); try --processes 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(place: Place) -> None:
    """Set up a process; it ends with its parent, and Ctrl-C is for the parent."""
    global _bench
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _bench = open_bench(place)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(work: Callable[[Bench, J], R], job: J) -> R:
    assert _bench is not None
    return work(_bench, job)
