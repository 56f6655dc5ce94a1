"""``fedapp hdc``: studies of an HDC-FL run that is over; nothing is trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedapp.cli.bar import counting
from fedapp.cli.console import BAD_SETTINGS, INTERRUPTED, complain, out, print_table
from fedapp.launch import interruptible
from fedapp.report import study_tables as tables

if TYPE_CHECKING:
    from fedapp.study.bench import Bench

app = typer.Typer(
    name="hdc",
    help="Study the cache of an HDC-FL run; nothing is trained.",
    no_args_is_help=True,
)

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)
]
Round = Annotated[
    int | None,
    typer.Option("--round", help="A committed round; default: the newest."),
]
Processes = Annotated[
    int | None,
    typer.Option(min=1, help="Processes; default: as many as pay. Results are equal."),
]
DataPath = Annotated[
    str, typer.Option(help="Where the run's data are now, if they were moved.")
]
Report = Annotated[bool, typer.Option(help="Build the run's report again, with it.")]


@app.command()
def variants(
    run: Run,
    at: Round = None,
    mix: Annotated[
        list[float] | None,
        typer.Option(min=0.0, max=1.0, help="Also this mix; may be given repeatedly."),
    ] = None,
    temperature: Annotated[
        list[float] | None,
        typer.Option(help="Also this temperature; may be given repeatedly."),
    ] = None,
    processes: Processes = None,
    data_path: DataPath = "",
    report: Report = True,
) -> None:
    """Score the same cache with other memberships: own encoder, population, hard, ...

    Without --mix and --temperature a few of each are tried. Rows by client go to
    hdc-fl/variants.csv of the run folder, a summary to hdc-fl/variants.json.
    """
    from fedapp.study import variant_results as results
    from fedapp.study.variant import sweeps, variants_of
    from fedapp.study.variants import evaluate

    with _bench(run, at, data_path) as bench:
        mixes, temperatures = sweeps(bench, mix, temperature)
        chosen = variants_of(bench, mixes=mixes, temperatures=temperatures)
        total = len(chosen) * len(bench.clients)
        with counting("scoring clients", total) as on_done:
            found = evaluate(bench, chosen, processes=processes, on_done=on_done)
        place, summary = results.write(bench, found)
        title = f"Variants at round {summary['round']}, test accuracy"
        print_table(title, tables.VARIANTS, tables.variant_rows(summary), right=True)
        rows = tables.grouping_rows(summary)
        print_table("How heads were grouped", tables.GROUPING, rows, right=True)
        for line in tables.variant_notes(summary):
            out.print(line, soft_wrap=True)
        _end(bench, place, report=report)


@app.command()
def swap(
    run: Run,
    at: Round = None,
    processes: Processes = None,
    data_path: DataPath = "",
    report: Report = True,
) -> None:
    """Score every client's head under every other client's encoder (donor swap).

    Pairs go to hdc-fl/swap.csv of the run folder, a summary to hdc-fl/swap.json.
    """
    from fedapp.study import swap as study
    from fedapp.study import swap_results as results

    with _bench(run, at, data_path) as bench:
        total = len(bench.snapshot.clients) ** 2
        with counting("scoring pairs", total) as on_done:
            found = study.swap(bench, processes=processes, on_done=on_done)
        place, summary = results.write(bench, found)
        title, rows = tables.swap_title(summary), tables.swap_rows(summary)
        print_table(title, tables.SWAP, rows, right=False)
        _end(bench, place, report=report)


@contextmanager
def _bench(run: Path, at: int | None, data_path: str) -> Iterator["Bench"]:
    """Hold the run folder, so that nobody goes on with the run, and lay it out."""
    # Not at the top: they import torch.
    from fedapp.study.opening import held_bench
    from fedapp.study.place import StudyError

    try:
        with interruptible(), held_bench(run, round=at, data_path=data_path) as bench:
            yield bench
    except (StudyError, OSError) as problem:
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    except KeyboardInterrupt:
        complain("interrupted; the run folder is as it was")
        raise typer.Exit(INTERRUPTED) from None


def _end(bench: "Bench", written: Path, *, report: bool) -> None:
    out.print(f"written: {written}", soft_wrap=True)
    if report:
        from fedapp.report.build import write_report
        from fedapp.report.reading import RunFolderError

        try:
            page = write_report(bench.place.path)
        except (RunFolderError, OSError) as problem:
            complain(f"the report was not built: {problem}")
        else:
            out.print(f"report: {page}", soft_wrap=True)
