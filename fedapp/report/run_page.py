"""The page of one run."""

from collections.abc import Sequence

from fedapp.report import run_sections, studies
from fedapp.report.client_table import client_table
from fedapp.report.curves import other_models, points
from fedapp.report.drawing import Drawn
from fedapp.report.folder import RunData
from fedapp.report.html import Html, section, tag
from fedapp.report.page import banner, bullets, figure, numbers, page
from fedapp.report.parts import Accuracy
from fedapp.report.revealed import revealed
from fedapp.report.words import duration, per_cent

COSTS = "costs"
OF_GROUPS = (
    "groups",
    "memberships",
    "map",
    "similarity",
    "group-accuracy",
    "silhouettes",
    "refreshes",
    "changes",
    "spectrum",
    "ages",
)
"""Figures that have a section of their own, about HDC-FL's groups."""

HEADLINES = {
    "mean": "mean of clients",
    "worst": "worst client",
    "bottom20": "bottom 20 %",
    "gap": "gap, best to worst",
}
MORE = {"weighted_mean": "weighted by test samples", "std": "deviation over clients"}


def run_page(run: RunData, drawn: Sequence[Drawn], missing: Sequence[str]) -> str:
    """Return the HTML document that tells of ``run``."""
    title = run.path.name
    costs = [figure(one) for one in drawn if one.name == COSTS]
    told = revealed(run)
    groups = [figure(one) for one in drawn if one.name in OF_GROUPS]
    others = [figure(one) for one in drawn if one.name not in (COSTS, *OF_GROUPS)]
    return page(
        title,
        tag("header", tag("h1", title), tag("p", _lead(run), class_="lead")),
        _banner(run),
        _headlines(run),
        section("What is missing", bullets(list(missing))) if missing else Html(""),
        section("Figures", *([tag("div", *others, class_="figures")] * bool(others))),
        section("Groups", *([tag("div", *groups, class_="figures")] * bool(groups))),
        section("Clients", client_table(run)),
        section("Unseen clients", *run_sections.unseen(run)),
        *studies.sections(run.path),
        section("Settings", *run_sections.settings(run)),
        section("Dropped replies", *run_sections.failures(run)),
        section("What the server saw of heads", tag("p", told)) if told else Html(""),
        section(
            "Traffic and time",
            tag("div", *costs, tag("div", *run_sections.costs(run)), class_="figures"),
        ),
        section("How the data was dealt", *run_sections.data_notes(run)),
        section("Made with", *run_sections.versions(run)),
        _footer(),
    )


def last_accuracy(run: RunData) -> Accuracy:
    """Return summary.json's accuracy; of the last evaluation if it has none."""
    if run.summary.accuracy.mean is not None:
        return run.summary.accuracy
    found = points(run.scores, unseen_from=run.unseen_from)
    return found[-1].accuracy if found else Accuracy()


def _lead(run: RunData) -> str:
    given, summary = run.settings, run.summary
    seed = summary.seed if summary.seed is not None else given.get("seed", "?")
    words = [run.summary.method or str(given.get("method", ""))]
    words += [str(given.get("data.name", "")), f"{run.clients or '?'} clients"]
    unseen = int(given.get("data.unseen-clients", 0))
    if unseen:
        words.append(f"{unseen} of them unseen")
    fraction = float(given.get("rounds.fraction", 1.0))
    who = "the others" if unseen else "them"
    if fraction < 1:
        words.append(f"{100 * fraction:g} % of {who} train in a round")
    words += [f"model {given['model.name']}"] if "model.name" in given else []
    width = float(given.get("model.width", 1.0))
    words += [f"width {width:g}"] if width != 1 else []
    return ", ".join([word for word in words if word] + [f"seed {seed}"])


def _banner(run: RunData) -> Html:
    summary = run.summary
    of = f" of {run.settings['rounds.count']}" if "rounds.count" in run.settings else ""
    text = f"after {run.whole_rounds}{of} whole rounds."
    if summary.seconds.total:
        text = text[:-1] + f", {duration(summary.seconds.total)}."
    if summary.status == "running":
        text = "run, still going on or killed. Numbers are of the last evaluation."
    elif summary.status != "completed":
        text += " This is not a result."
    return banner(summary.status, text, detail=summary.error or "")


def _headlines(run: RunData) -> Html:
    accuracy = last_accuracy(run)
    if accuracy.mean is None:
        return tag("p", "There is no accuracy: no evaluation was finished.")
    at = run.evaluated or run.whole_rounds
    shown = {label: per_cent(getattr(accuracy, k)) for k, label in HEADLINES.items()}
    more = [f"{label} {per_cent(getattr(accuracy, k))}" for k, label in MORE.items()]
    unseen = run.summary.unseen
    if unseen is not None:
        more.append(f"{unseen.clients} unseen clients {per_cent(unseen.mean)}")
    models = other_models(run.scores, unseen_from=run.unseen_from)
    most = max((count for _, count in models.values()), default=0)
    more += [
        f"model “{model}” {per_cent(mean)}" + (f" ({n} clients)" if n < most else "")
        for model, (mean, n) in models.items()
    ]
    text = f"Test accuracy at round {at}, the last evaluation. Also: {', '.join(more)}."
    return tag(
        "section",
        tag("h2", "Accuracy"),
        numbers(shown),
        tag("p", text, class_="small"),
    )


def _footer() -> Html:
    return tag(
        "footer",
        "The last round is reported, never the best one. The figures lie beside this "
        "page in figures/ as SVG and PNG; ",
        tag("code", "fedapp report RUN"),
        " rebuilds it.",
    )
