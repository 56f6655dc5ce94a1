"""Building report.html and the figures of a run folder."""

from logging import WARNING, getLogger
from pathlib import Path

from fedapp.files import write_text
from fedapp.report.album import draw
from fedapp.report.drawing import save
from fedapp.report.folder import load
from fedapp.report.run_page import run_page

log = getLogger("flwr")

REPORT = "report.html"
FIGURES = "figures"


def write_report(path: Path) -> Path:
    """Write report.html and figures/ into the run folder ``path``; return the page.

    Raises
    ------
    RunFolderError
        If ``path`` is no run folder or a broken one.
    """
    run = load(path)
    figures, missing = draw(run)
    for drawn in figures:
        save(run.path / FIGURES, drawn)
    page = run.path / REPORT
    write_text(page, run_page(run, figures, [*run.missing, *missing]))
    return page


def try_report(path: Path) -> None:
    """Write the report at the end of a run; what goes wrong is logged, never raised."""
    try:
        write_report(path)
    except Exception as error:
        log.log(
            WARNING,
            "the report of %s was not written: %s: %s; fedapp report %s tries again",
            path,
            type(error).__name__,
            error,
            path,
        )
