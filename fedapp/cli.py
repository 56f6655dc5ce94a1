"""The command ``fedapp``: run a method, list what exists."""

import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from fedapp import launch
from fedapp.config import (
    SECTIONS,
    Scalar,
    Settings,
    SettingsError,
    defaults,
    parse_pairs,
    project_file,
    suggestion,
    table_fields,
)
from fedapp.launch import OnPoll, Progress

app = typer.Typer(
    name="fedapp",
    help="Personalised federated learning on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Without a terminal rich assumes 80 columns and would break rows.
WIDE = None if sys.stdout.isatty() else 200
out = Console(highlight=False, markup=False, width=WIDE)
err = Console(stderr=True, highlight=False, markup=False)

BAD_SETTINGS = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _common(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    if show_version:
        out.print(f"fedapp {version('fedapp')}")
        raise typer.Exit


# --- run ------------------------------------------------------------------------------


@app.command()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD] [KEY=VALUE]...",
            help="Method (`fedapp methods`) and settings (`fedapp settings`).",
        ),
    ] = None,
    engine: Annotated[
        Literal["ray", "inline"],
        typer.Option(help="ray: parallel workers; inline: this one process."),
    ] = "ray",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Clients at a time; default: all CPUs.")
    ] = None,
    gpus_per_client: Annotated[
        float, typer.Option(min=0.0, help="Share of a GPU that a client gets.")
    ] = 0.0,
    per_client: Annotated[
        bool, typer.Option("--per-client", help="Show the results of each client.")
    ] = False,
    install_dependencies: Annotated[
        bool, typer.Option(help="Let Flower install the app's dependencies anew.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show only errors and the run folder.")
    ] = False,
) -> None:
    """Train and test one method; results go to a new run folder."""
    try:
        plan = make_plan(words or [])
    except SettingsError as problem:
        _complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    os.environ["FEDAPP_COMMIT"] = commit_of(project_file().parent)
    start: Callable[[OnPoll], None]
    if engine == "inline":
        start = plan.run_inline
    else:
        job = launch.Job(
            overrides=plan.overrides,
            clients=plan.settings.data.clients,
            workers=workers,
            gpus_per_client=gpus_per_client,
            run_dir=plan.run_dir,
            install_dependencies=install_dependencies,
        )
        start = partial(launch.simulate, job)
    code = _watch(start, plan.run_dir, quiet=quiet)
    summary = launch.read_json(plan.run_dir / "summary.json")
    if summary and not quiet:
        show_summary(summary, per_client=per_client)
    if plan.run_dir.is_dir():
        out.print(f"run folder: {plan.run_dir}", soft_wrap=True)
    raise typer.Exit(code)


@dataclass(frozen=True)
class Plan:
    """What the words of the command line ask for, checked."""

    settings: Settings
    overrides: Mapping[str, Scalar]
    run_dir: Path

    def run_inline(self, on_poll: OnPoll) -> None:
        """Run in this process and thread; another thread watches the run folder."""
        from fedapp.inline import run_inline

        done = threading.Event()
        progress = self.run_dir / "progress.json"

        def watch() -> None:
            while not done.wait(launch.POLL_SECONDS):
                on_poll(launch.read_json(progress))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            with _log_kept(self.run_dir):
                run_inline({**defaults(), **self.overrides})
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


def make_plan(words: Sequence[str]) -> Plan:
    """Return what ``[METHOD] [key=value]...`` asks for.

    Raises
    ------
    SettingsError
        A setting is wrong, or the run folder exists.
    """
    from fedapp.methods import check_for_simulation, check_settings

    method = next((word for word in words if "=" not in word), None)
    pairs = list(words)
    if method is not None:
        pairs[pairs.index(method)] = f"method={method}"
    overrides = parse_pairs(pairs)
    flat = {**defaults(), **overrides}
    settings = check_settings(flat)
    check_for_simulation(settings)
    if settings.data.path:
        overrides["data.path"] = str(_absolute(settings.data.path))
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{settings.method}-{settings.data.name}-s{settings.seed}-{stamp}"
    run_dir = _absolute(settings.output.dir) / (settings.output.name or name)
    if run_dir.exists():
        raise SettingsError(
            f"the run folder {run_dir} exists already and is left as it is: "
            "choose another output.name, or move it away"
        )
    overrides |= {"output.dir": str(run_dir.parent), "output.name": run_dir.name}
    return Plan(settings, overrides, run_dir)


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def commit_of(folder: Path) -> str:
    """Return the git commit of an app's folder, ``-dirty`` with changes; or nothing."""
    shipped = ["pyproject.toml", "fedapp", "strategies", "client_apps"]
    if _git(folder, "rev-parse", "--show-toplevel") != str(folder.resolve()):
        return ""
    commit = _git(folder, "rev-parse", "HEAD")
    dirty = _git(folder, "status", "--porcelain", "--", *shipped)
    return f"{commit}-dirty" if commit and dirty else commit


def _git(folder: Path, *words: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True
        )
    except OSError:  # git is not installed
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _watch(start: Callable[[OnPoll], None], run_dir: Path, *, quiet: bool) -> int:
    """Return the exit code of a run that ``start`` starts, showing how it goes."""
    display = Display(out, quiet=quiet)
    try:
        with launch.interruptible(), display:
            start(display.update)
    except KeyboardInterrupt:
        launch.settle(run_dir, status="interrupted", error="interrupted")
        _complain("interrupted")
        return INTERRUPTED
    except launch.LaunchError as problem:
        _complain(problem)
        _complain(f"the whole log: {launch.log_file(run_dir)}")
        return 1
    except Exception as problem:  # of the inline engine: whatever ends the run
        launch.settle(run_dir, status="failed", error=str(problem))
        _complain(problem)
        return 1
    summary = launch.read_json(run_dir / "summary.json")
    if summary.get("status") == "completed":
        return 0
    _complain(summary.get("error") or f"the run ended as {summary.get('status')!r}")
    return 1


def _complain(problem: object) -> None:
    for line in str(problem).splitlines():
        err.print(line, style="red", soft_wrap=True)


# --- display --------------------------------------------------------------------------


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
    return f"mean {_per_cent(mean)}, worst {_per_cent(worst)}"


def _per_cent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def show_summary(summary: Mapping[str, Any], *, per_client: bool) -> None:
    """Print the results of a run."""
    accuracy = summary.get("accuracy") or {}
    names = {
        "mean": "mean",
        "worst": "worst client",
        "bottom20": "bottom 20 %",
        "gap": "gap",
        "weighted_mean": "weighted mean",
    }
    if accuracy.get("mean") is not None:
        row = [_per_cent(accuracy.get(name)) for name in names]
        _print_table("Test accuracy", list(names.values()), [row], right=True)
    clients = summary.get("per_client") or []
    if per_client and clients:
        head = ["client", "test samples", "accuracy", "latent group", "trained"]
        rows = [
            [
                str(c.get("name", c["client"])),
                str(c["examples"]),
                _per_cent(c["accuracy"]),
                "-" if c.get("latent_group") is None else str(c["latent_group"]),
                "yes" if c.get("trained") else "no",
            ]
            for c in clients
        ]
        _print_table("Clients", head, rows, right=True)
    out.print(f"failed replies: {len(summary.get('failures') or [])}")


def _print_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool
) -> None:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in head:
        # All but the last may hold what a user will type.
        whole = column != head[-1]
        table.add_column(column, justify="right" if right else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    out.print(table)


# --- lists ----------------------------------------------------------------------------


@app.command()
def methods() -> None:
    """List the methods."""
    from fedapp.methods import table

    rows = [[name, method.summary] for name, method in table().items()]
    _print_table("Methods", ["name", "what it is"], rows, right=False)


@app.command()
def datasets() -> None:
    """List the data sets."""
    from fedapp.data.images import DATASETS

    rows = [[name, row.about] for name, row in DATASETS.items()]
    _print_table("Data sets", ["name", "what it is"], rows, right=False)


@app.command()
def settings(
    method: Annotated[
        str | None, typer.Argument(help="Show this method's own settings.")
    ] = None,
) -> None:
    """List the settings all methods share, or those of one method."""
    head = ["setting", "default", "allowed", "what it is"]
    if method is None:
        _print_table("Settings of every method", head, _shared_rows(), right=False)
        out.print("A method's own settings: fedapp settings METHOD")
        return
    try:
        rows = _method_rows(method)
    except SettingsError as problem:
        _complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    if rows:
        _print_table(f"Settings of {method}", head, rows, right=False)
    else:
        out.print(f"{method} has no settings of its own.")
    out.print("Settings that every method shares: fedapp settings")


def _shared_rows() -> list[list[str]]:
    plain = {
        name: info for name, info in Settings.model_fields.items() if name in defaults()
    }
    rows = [_row(name, info, defaults()[name]) for name, info in plain.items()]
    for section, model in SECTIONS.items():
        for field, info in model.model_fields.items():
            name = f"{section}.{info.alias or field}"
            rows.append(_row(name, info, defaults()[name]))
    return rows


def _method_rows(name: str) -> list[list[str]]:
    from fedapp.methods import table

    if name not in table():
        hint = suggestion(name, table()) or "; see: fedapp methods"
        raise SettingsError(f"method = {name!r}: there is no such method{hint}")
    method = table()[name]
    if method.plugin is not None:
        return [
            _row(f"plugin.settings: {field}", info, info.get_default())
            for field, info in method.plugin.model_fields.items()
        ]
    rows = []
    for field, (_, info) in table_fields(*method.classes).items():
        full = f"{method.section or name}.{field.replace('_', '-')}"
        rows.append(_row(full, info, defaults()[full]))
    return rows


def _row(name: str, info: FieldInfo, default: object) -> list[str]:
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return [name, shown or '""', allowed(info), info.description or ""]


def allowed(info: FieldInfo) -> str:
    """Return the values a setting may have, in a few words."""
    kind = info.annotation
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    limits = [
        f"{sign} {_number(getattr(note, name))}"
        for name, sign in signs.items()
        for note in info.metadata
        if hasattr(note, name)
    ]
    kinds: dict[object, str] = {bool: "true, false", int: "integer", float: "number"}
    return ", ".join([kinds.get(kind, "text"), *limits])


def _number(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
