"""Sections of a run's page below the figures: settings, failures, costs, origin."""

from collections.abc import Iterator

from fedapp.config import Scalar, defaults
from fedapp.report.album import names_of
from fedapp.report.folder import RunData
from fedapp.report.html import Html, folded, table, tag
from fedapp.report.page import bullets
from fedapp.report.words import per_cent, size

MOST = 200
"""Dropped replies that are listed; summary.json has them all."""
OPEN = 10
"""Most dropped replies that are unfolded from the start."""


def settings(run: RunData) -> Iterator[Html]:
    """Yield what differs from the defaults, then everything."""
    if not run.settings:
        return
    changed = run.changed
    if changed:
        rows = [[k, text_of(v), _default(k)] for k, v in changed.items()]
        head = ["setting", "value", "default"]
        yield table("What differs from the defaults", head, rows, text=(0, 1, 2))
    else:
        yield tag("p", "All settings have their defaults.")
    rows = [[name, text_of(value)] for name, value in run.settings.items()]
    every = table("All settings", ["setting", "value"], rows, text=(0, 1))
    yield folded(f"All {len(rows)} settings", every)


MODELS = {
    "personal": "personal encoder, fitted head",
    "shared": "shared encoder, same head",
    "alone": "model trained alone",
}
"""What the models of a newcomer are, in words."""


def unseen(run: RunData) -> Iterator[Html]:
    """Yield how unseen clients did with each model, if they were scored with several.

    Which clients they are stands in the table of clients.
    """
    found = run.summary.unseen
    if found is None or len(found.models) < 2:
        return
    rows = [
        [MODELS.get(model, model), per_cent(few.mean), per_cent(few.worst)]
        for model, few in found.models.items()
    ]
    caption = f"{found.clients} clients that never trained, last evaluation"
    yield table(caption, ["scored with", "mean", "worst client"], rows)


def failures(run: RunData) -> Iterator[Html]:
    """Yield the dropped replies, clients named."""
    dropped = run.summary.failures
    if not dropped:
        yield tag("p", "None.")
        return
    names = dict(enumerate(names_of(run)))
    rows = [
        [str(f.round), f.phase, names.get(f.client, str(f.client)), f.cause]
        for f in dropped[:MOST]
    ]
    head = ["round", "phase", "client", "cause"]
    caption = f"{len(dropped)} replies did not count"
    if len(dropped) > MOST:
        caption += f"; the first {MOST}, summary.json has the others"
    found = table(caption, head, rows, text=(1, 2, 3))
    yield folded(f"{len(dropped)} dropped", found, open_=len(dropped) <= OPEN)


def costs(run: RunData) -> Iterator[Html]:
    """Yield tables of bytes and seconds."""
    traffic, seconds = run.summary.traffic, run.summary.seconds
    rows = [
        [
            "training, server to clients",
            size(traffic.down_bytes),
            _count(traffic.down_bytes),
        ],
        [
            "training, clients to server",
            size(traffic.up_bytes),
            _count(traffic.up_bytes),
        ],
        [
            "evaluation, server to clients",
            size(traffic.evaluate_down_bytes),
            _count(traffic.evaluate_down_bytes),
        ],
        [
            "evaluation, clients to server",
            size(traffic.evaluate_up_bytes),
            _count(traffic.evaluate_up_bytes),
        ],
    ]
    yield table("Traffic of all clients", ["what", "size", "bytes"], rows)
    share = run.summary.traffic_vs_fedavg
    if share is not None:
        yield tag(
            "p",
            f"Training traffic is {100 * share:.3g} % of what FedAvg sends with the "
            "same model, clients and rounds.",
        )
    spent = {
        "startup": seconds.startup,
        "training rounds": seconds.train,
        "evaluations": seconds.evaluate,
        "server, the rest": seconds.server,
        "total": seconds.total,
    }
    lines = [[name, f"{value:.1f}"] for name, value in spent.items()]
    if run.times:
        work = sum(row.seconds for row in run.times if row.client is not None)
        lines.append(["work of clients, added up", f"{work:.1f}"])
    yield table("Seconds", ["what", "seconds"], lines)


def data_notes(run: RunData) -> Iterator[Html]:
    """Yield what the manifest says of the data."""
    if run.manifest is None:
        return
    held = run.manifest
    train = sum(len(plan.train) for plan in held.clients)
    test = sum(len(plan.test) for plan in held.clients)
    hidden = sum(len(plan.unlabelled) for plan in held.clients)
    more = f", {hidden} unlabelled" if hidden else ""
    yield tag(
        "p",
        f"{held.name}: {held.classes} classes, {len(held.clients)} clients, {train} "
        f"training and {test} test samples{more}; content key ",
        tag("code", held.key[:16]),
        ".",
    )
    if held.notes:
        yield bullets(held.notes)


def versions(run: RunData) -> Iterator[Html]:
    """Yield the versions and the commit that made the run."""
    if not run.versions:
        return
    rows = [[k, v or "not known"] for k, v in run.versions.items()]
    yield table("Versions", ["what", "version"], rows, text=(0, 1))


def text_of(value: Scalar) -> str:
    """Return a setting as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value != "" else '""'


def _default(name: str) -> str:
    usual = defaults()
    return text_of(usual[name]) if name in usual else "not known here"


def _count(value: int) -> str:
    return f"{value:,}".replace(",", " ")
