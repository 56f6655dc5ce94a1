"""``fedapp doctor``: is this machine ready for a run?"""

from collections.abc import Iterable
from typing import Annotated

import typer

from fedapp.cli.console import BAD_SETTINGS, complain, out
from fedapp.cli.plan import read_words
from fedapp.config import SettingsError
from fedapp.doctor.examine import installation, machine
from fedapp.doctor.finding import Finding

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD] [KEY=VALUE]...",
            help="What you mean to run, as for `fedapp run`.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Clients at a time; default: all CPUs.")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Start Ray, and ask it what it sees.")
    ] = False,
) -> None:
    """Check versions, machine, disk, memory and data for a run; exit code 1 on trouble.

    A warning may be lived with; a problem stops the run, or ends it half way.
    """
    found = installation()
    _show(found)
    if not _well(found):  # the rest needs the packages
        raise typer.Exit(1)
    try:
        settings, _ = read_words(words or [])
    except SettingsError as problem:
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    for finding in machine(settings, workers=workers, ray=ray):
        _show([finding])
        found.append(finding)
    raise typer.Exit(0 if _well(found) else 1)


def _well(found: Iterable[Finding]) -> bool:
    return all(finding.level != "problem" for finding in found)


def _show(found: Iterable[Finding]) -> None:
    for finding in found:
        advice = f"; {finding.advice}" if finding.advice else ""
        line = f"{finding.level:7}  {finding.topic:12} {finding.fact}{advice}"
        style = COLOURS[finding.level]
        out.print(line, style=style, soft_wrap=True)
