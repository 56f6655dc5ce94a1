"""Run every cell of a table file with every seed, and write the table.

python experiments/run.py experiments/hdc_fl_rotation/mnist_rotation.toml --jobs 2
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

# The code beside this file is what runs, whatever else is installed.
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from experiments.plan import plan
from experiments.results import TableResult, gather
from experiments.screen import Screen, complain, show_plan, show_table
from experiments.store import Run, merged, result_of
from experiments.table import Table, TableError, read_table
from experiments.work import work
from experiments.write import write
from fedapp.cli.commit import commit_of
from fedapp.config import SettingsError, suggestion
from fedapp.launch import interruptible
from fedapp.workplace import cache_folder

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


@app.command()
def main(
    table: Annotated[Path, typer.Argument(help="The table file, TOML.")],
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="FEDAPP_DATA", help="Folder of data sets: $DATA in the table."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of all runs; default: in the user's cache."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="ROW", help="Do the runs of one row only.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all, say what would be done.")
    ] = False,
) -> None:
    """Run every cell of a table with every seed; write the table beside its file.

    What is finished with the same settings, data and code is not done again.
    """
    place = (out or cache_folder() / "experiments").expanduser().absolute()
    try:
        found = read_table(table)
        _check_words(found, only, place)
        folder = data.expanduser().absolute() if data else None
        runs = plan(found, data=folder, out=place, cache=cache_folder())
    except (TableError, SettingsError) as problem:  # SettingsError: of a plug-in
        complain(problem)
        raise typer.Exit(BAD_INPUT) from None
    wanted = [run for run in runs if only in (None, run.cell.row)]
    wanted = merged(wanted)
    todo = [run for run in wanted if not run.done]
    if dry_run:
        show_plan(wanted, todo)
        return
    causes = _do(todo, jobs=jobs, skipped=len(wanted) - len(todo))
    results = [(run, result_of(run, causes.get(run.name, ""))) for run in runs]
    _end(gather(found, results))


def _check_words(table: Table, only: str | None, out: Path) -> None:
    """Raise a TableError if there is no such row, or git would see the runs."""
    rows = [cell.row for cell in table.cells]
    if only is not None and only not in rows:
        hint = suggestion(only, rows) or f"; there are {', '.join(dict.fromkeys(rows))}"
        raise TableError(f"--only {only!r}: there is no such row{hint}")
    if out.resolve().is_relative_to(ROOT) and not _ignored(out):
        raise TableError(
            f"--out {out}: runs do not belong into the repository; choose a folder "
            "outside it, or one that git ignores"
        )


def _ignored(folder: Path) -> bool:
    command = ["git", "-C", str(ROOT), "check-ignore", "--quiet", f"{folder}/"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:  # git is not installed
        return False


def _do(todo: Sequence[Run], *, jobs: int, skipped: int) -> dict[str, str]:
    """Do runs and return why those that failed did, by name."""
    causes: dict[str, str] = {}
    with interruptible(), Screen(total=len(todo), skipped=skipped) as screen:

        def end(run: Run, cause: str) -> None:
            causes[run.name] = cause
            screen.ended(run, result_of(run, cause))

        try:
            for run in todo:
                run.out.mkdir(parents=True, exist_ok=True)
            commit = commit_of(ROOT)
            work(todo, jobs=jobs, commit=commit, on_end=end, on_tick=screen.tick)
        except KeyboardInterrupt:
            screen.stop()
            complain(
                f"interrupted after {len(causes)} of {len(todo)} runs; the same "
                "command goes on from here"
            )
            raise typer.Exit(INTERRUPTED) from None
    return causes


def _end(result: TableResult) -> None:
    show_table(result, write(result))
    if result.failed:
        raise typer.Exit(FAILED)


if __name__ == "__main__":
    app()
