"""The page that puts runs side by side."""

from collections.abc import Iterator

from fedapp.report.album import names_of
from fedapp.report.compare import PAIRS, RESULTS, Comparison
from fedapp.report.compare_figures import difference_bars, overlaid
from fedapp.report.compare_sweep import SWEPT, sweep, sweep_figure
from fedapp.report.comparison import Paired
from fedapp.report.curves import points
from fedapp.report.drawing import STYLE, Drawn
from fedapp.report.html import Html, folded, section, table, tag
from fedapp.report.page import banner, bullets, figure, page
from fedapp.report.words import per_cent, points_of

OPEN = 40
"""Most clients whose table is unfolded from the start."""


def compare_page(found: Comparison) -> str:
    """Return the HTML document that compares runs."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        drawn = [figure(one) for one in _figures(found)]
    first = found.labels[0]
    title = f"{len(found.runs)} runs compared"
    head = ["setting", *found.labels]
    settings = found.settings()
    return page(
        title,
        tag("header", tag("h1", title), tag("p", ", ".join(found.labels))),
        *_warnings(found),
        section(
            "Results",
            table(
                "Test accuracy at the last evaluation; clients count equally",
                RESULTS,
                found.results(),
                text=(0, 5, 6),
            ),
        ),
        section("Figures", *([tag("div", *drawn, class_="figures")] if drawn else [])),
        section(
            "Settings that differ",
            table("Settings", head, settings, text=range(len(head)))
            if settings
            else tag("p", "None."),
        ),
        section("Client by client", *_by_client(found, first)),
        tag(
            "footer",
            "The last round of each run is compared, never the best one. Where a run "
            "lies is left out of the settings.",
        ),
    )


def _warnings(found: Comparison) -> Iterator[Html]:
    for label, run in zip(found.labels, found.runs, strict=True):
        if run.summary.status != "completed":
            text = f"run: {label}, {run.whole_rounds} whole rounds. Not a result."
            yield banner(run.summary.status, text, detail=run.summary.error or "")


def _figures(found: Comparison) -> Iterator[Drawn]:
    curves = {
        label: points(run.scores, unseen_from=run.unseen_from)
        for label, run in zip(found.labels, found.runs, strict=True)
    }
    curves = {label: curve for label, curve in curves.items() if curve}
    if curves:
        yield overlaid(curves, key="mean", title="Mean of clients")
        yield overlaid(curves, key="worst", title="Worst client")
    for name in SWEPT:
        lines = sweep(found.runs, name)
        if any(len(line) > 1 for line in lines.values()):
            yield sweep_figure(lines, name)
    names = names_of(found.runs[0])
    paired = [result for result in found.pairs if isinstance(result, Paired)]
    every = [abs(v) for result in paired for v in result.differences.values()]
    for number, result in enumerate(found.pairs, start=1):
        if isinstance(result, Paired):
            yield difference_bars(
                result,
                names,
                first=found.labels[0],
                other=found.labels[number],
                number=number,
                span=max(*every, 0.01),
            )


def _by_client(found: Comparison, first: str) -> Iterator[Html]:
    rows = found.paired()
    if rows:
        caption = f"Minus {first}, the same clients and samples; percentage points"
        yield table(caption, PAIRS, rows, text=(0, 5, 6))
        yield _client_table(found)
    if found.unpaired():
        yield bullets(found.unpaired())


def _client_table(found: Comparison) -> Html:
    base = {c.client: c.accuracy for c in found.runs[0].results}
    paired = [
        (label, result.differences)
        for label, result in zip(found.labels[1:], found.pairs, strict=True)
        if isinstance(result, Paired)
    ]
    clients = sorted({client for _, values in paired for client in values})
    names = found.names
    rows = [
        [
            names[client],
            per_cent(base[client]),
            *(points_of(v[client]) if client in v else "-" for _, v in paired),
        ]
        for client in clients
    ]
    head = ["client", found.labels[0], *(label for label, _ in paired)]
    caption = f"Accuracy in {found.labels[0]}, and the others minus it in points"
    return folded(
        f"All {len(rows)} clients",
        table(caption, head, rows),
        open_=len(rows) <= OPEN,
    )
