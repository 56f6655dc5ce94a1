"""The table of clients, those with the lowest accuracy first."""

from collections.abc import Mapping, Sequence

from fedapp.report.album import latent_of, names_of
from fedapp.report.folder import RunData
from fedapp.report.html import Html, folded, table
from fedapp.report.membership_figure import last_weights, strongest
from fedapp.report.parts import ClientResult
from fedapp.report.ranking import apart, counted
from fedapp.report.timeline import assigned
from fedapp.report.words import per_cent

OPEN = 40
"""Most clients whose table is unfolded from the start."""


def client_table(run: RunData) -> Html:
    """Return how every client did; nothing without an evaluation."""
    seen, unseen = apart(run.results, unseen_from=run.unseen_from)
    shown = [*seen, *unseen]
    if not shown:
        return Html("")
    worst = counted(run.results, unseen_from=run.unseen_from)[:1]
    columns = _columns(run, shown, worst)
    rows = list(zip(*columns.values(), strict=True))
    found = table(
        "Last evaluation, lowest accuracy first"
        + ("; unseen clients at the end" if unseen else ""),
        list(columns),
        rows,
        text=(0, len(columns) - 1),
        marked=[shown.index(client) for client in worst],
    )
    return folded(f"All {len(shown)} clients", found, open_=len(shown) <= OPEN)


def flags(client: ClientResult, *, unseen: bool, worst: bool) -> str:
    """Return what is special about a client, in words."""
    words = ["worst"] if worst else []
    if unseen:
        words.append("unseen: never trains")
    elif not client.trained:
        words.append("never trained so far")
    return ", ".join(words)


def _placed(weights: Mapping[int, float]) -> str:
    """Return where a newcomer's fitted head places it."""
    if not sum(weights.values()):
        return ""
    group = strongest(weights)
    return f"; nearest group {group}, {per_cent(weights[group])}"


def _columns(
    run: RunData, shown: Sequence[ClientResult], worst: Sequence[ClientResult]
) -> dict[str, list[str]]:
    """Return the columns by heading, those left out of which nothing is known."""
    numbers = [c.client for c in shown]
    columns = {"client": [c.name for c in shown]}
    if any(c.name != str(c.client) for c in shown):
        columns["number"] = [str(k) for k in numbers]
    columns["accuracy"] = [per_cent(c.accuracy) for c in shown]
    columns["loss"] = [f"{c.loss:.4f}" for c in shown]
    columns["test samples"] = [str(c.examples) for c in shown]
    if run.manifest is not None and len(run.manifest.clients) == len(names_of(run)):
        plans = run.manifest.clients
        columns["training samples"] = [str(len(plans[k].train)) for k in numbers]
    latent = [c.latent_group for c in shown]
    if len(set(latent_of(run))) > 1:
        columns["latent group"] = ["-" if g is None else str(g) for g in latent]
    groups = assigned(run.memberships)
    if groups:
        last = groups[max(groups)]
        columns["group"] = [str(last.get(k, "-")) for k in numbers]
    trained = {
        row.client: row.last_trained_round
        for row in run.scores
        if row.round == run.evaluated
    }
    columns["last trained in round"] = [str(trained.get(k) or "-") for k in numbers]
    late = last_weights([row for row in run.newcomers if row.round == run.evaluated])
    columns["notes"] = [
        flags(c, unseen=c.client >= run.unseen_from, worst=c in worst)
        + _placed(late.get(c.client, {}))
        for c in shown
    ]
    return columns
