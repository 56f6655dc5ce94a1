"""``fedapp run``: train and test one method."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedapp import launch
from fedapp.cli.commit import commit_of
from fedapp.cli.console import BAD_SETTINGS, INTERRUPTED, complain, out
from fedapp.cli.display import Display
from fedapp.cli.inline import run_here
from fedapp.cli.plan import make_plan, make_resumption
from fedapp.cli.results import show_summary
from fedapp.config import SettingsError, project_file
from fedapp.launch import OnPoll


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
    configuration: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Settings of a published study (`fedapp configurations`); "
            "KEY=VALUE wins over them.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with the run in this run folder."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show only errors and the run folder.")
    ] = False,
) -> None:
    """Train and test one method; results go to a new run folder."""
    try:
        if resume is None:
            plan = make_plan(words or [], configuration)
        elif configuration is not None:
            raise SettingsError("--configuration: a run that goes on has its settings")
        else:
            plan = make_resumption(resume, words or [])
            # It tells how the run ended before; the display waits for such news.
            (plan.run_dir / "progress.json").unlink(missing_ok=True)
            (plan.run_dir / "stop").unlink(missing_ok=True)
    except SettingsError as problem:
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    os.environ["FEDAPP_COMMIT"] = commit_of(project_file().parent)
    start: Callable[[OnPoll], None]
    if engine == "inline":
        start = partial(run_here, plan)
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
    if plan.settings.output.report:
        launch.ensure_report(plan.run_dir)
    summary = launch.read_json(plan.run_dir / "summary.json")
    if summary and not quiet:
        show_summary(summary, per_client=per_client)
    if plan.run_dir.is_dir():
        out.print(f"run folder: {plan.run_dir}", soft_wrap=True)
    raise typer.Exit(code)


def _watch(start: Callable[[OnPoll], None], run_dir: Path, *, quiet: bool) -> int:
    """Return the exit code of a run that ``start`` starts, showing how it goes."""
    display = Display(out, quiet=quiet)
    try:
        with launch.interruptible(), display:
            start(display.update)
    except KeyboardInterrupt:
        launch.settle(run_dir, status="interrupted", error="interrupted")
        complain("interrupted")
        return INTERRUPTED
    except launch.LaunchError as problem:
        complain(problem)
        complain(f"the whole log: {launch.log_file(run_dir)}")
        return 1
    except Exception as problem:  # of the inline engine: whatever ends the run
        launch.settle(run_dir, status="failed", error=str(problem))
        complain(problem)
        return 1
    summary = launch.read_json(run_dir / "summary.json")
    if summary.get("status") == "completed":
        return 0
    complain(summary.get("error") or f"the run ended as {summary.get('status')!r}")
    return 1
