"""How a run goes, shown while it goes."""

import time

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from fedapp.cli.console import per_cent
from fedapp.launch import Progress


class Display:
    """How a run goes: a bar on a terminal, elsewhere a line for each evaluation."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._shown: object = None
        self._start: tuple[float, float] | None = None
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=1.0, numbers="")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show ``progress``, the table of progress.json."""
        if self._quiet:
            return
        if not self._bar.disable:
            numbers = f"{_scores(progress)}  {self._left(share_done(progress))}"
            self._bar.update(
                self._task,
                description=_where(progress),
                completed=share_done(progress),
                numbers=numbers.strip(),
            )
            return
        last = progress.get("evaluated"), progress.get("mean"), progress.get("worst")
        if progress.get("mean") is not None and last != self._shown:
            self._shown = last
            at = progress.get("evaluated", progress.get("round"))
            self._console.print(
                f"round {at}/{progress.get('rounds')}: {_scores(progress)}"
            )

    def _left(self, share: float) -> str:
        """Return the time left, from the pace since the first progress."""
        now = time.monotonic()
        if share <= 0:
            return ""
        if self._start is None:
            self._start = now, share
        since, first = self._start
        if share <= first:
            return ""
        left = (now - since) * (1 - share) / (share - first)
        return f"{int(left) // 60}:{int(left) % 60:02} left"


def share_done(progress: Progress) -> float:
    """Return how much of a run is done, 0 to 1; only training phases count."""
    current, rounds = progress.get("round") or 0, progress.get("rounds") or 0
    if not current or not rounds:
        return 0.0
    within = 1.0
    if progress.get("phase") == "train":
        within = min(1.0, (progress.get("done") or 0) / (progress.get("asked") or 1))
    return float((current - 1 + within) / rounds)


def _where(progress: Progress) -> str:
    if progress.get("stage") or not progress.get("round"):
        return str(progress.get("stage") or "starting")
    text = f"round {progress['round']}/{progress.get('rounds')} {progress.get('phase')}"
    return f"{text} {progress.get('done', 0)}/{progress.get('asked', '?')}"


def _scores(progress: Progress) -> str:
    mean, worst = progress.get("mean"), progress.get("worst")
    if mean is None:
        return ""
    return f"mean {per_cent(mean)}, worst {per_cent(worst)}"
