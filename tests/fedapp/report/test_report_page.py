"""report.html: self-contained, true to summary.json, safe, and there for any run."""

import json
import re
from html.parser import HTMLParser

import pytest
from made_run import write_groups, write_run

from fedapp import launch, server_app
from fedapp.config import defaults
from fedapp.report import build
from fedapp.report.build import try_report, write_report
from fedapp.report.folder import load
from fedapp.report.run_page import OF_GROUPS, run_page
from fedapp.report.words import duration, per_cent, size

VOID = {"meta", "br", "link"}


class Page(HTMLParser):
    """Tags with attributes, ids, and the text a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "svg"} & {*self.open}:
            self.text += data

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def page_of(path) -> Page:
    """Return the page without its figures: they take seconds to draw."""
    run = load(path)
    return Page(run_page(run, [], run.missing))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return a run folder with its report; tests only read it."""
    path = write_run(tmp_path_factory.mktemp("drawn") / "run")
    write_groups(path)
    write_report(path)
    return path


@pytest.fixture
def path(tmp_path):
    return write_run(tmp_path / "run")


def report_of(path) -> str:
    return (path / "report.html").read_text("utf-8")


def test_a_page_loads_nothing_from_elsewhere(drawn):
    page = Page(report_of(drawn))

    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(
        name for name, _ in page.tags
    )
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "data", "action"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,")), value
    assert (
        re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/)", report_of(drawn))
        == []
    )


def test_every_figure_is_inline_and_saved_twice(drawn):
    page = Page(report_of(drawn))

    wanted = ["accuracy", "clients", "costs", "labels", *OF_GROUPS]
    files = sorted(file.name for file in (drawn / "figures").iterdir())
    assert files == sorted(f"{n}.{e}" for n in wanted for e in ("svg", "png"))
    assert len(page.named("figure")) == len(page.named("svg")) == len(wanted)


def test_every_figure_has_a_text_for_those_who_cannot_see_it(drawn):
    figures = [a for a in Page(report_of(drawn)).named("div") if a.get("role") == "img"]

    joined = " ".join(str(figure["aria-label"]) for figure in figures)
    assert "unseen: never trains; nearest group 5, 75.00 %" in report_of(drawn)
    for fact in (
        "worst client 12.50 %, then 37.50 %",
        "Unseen clients: 1",
        "At the last, round 4: group 0 has 2 clients, group 5 has 1 clients",
        "Mean inner product within groups 1.00, between groups 0.00",
        "silhouette 0.75, ARI 0.50 to the refresh before and 1.00 to latent",
        "The strongest membership of a client is 80 % on average, 70 % at least.",
        "On the right: 1 newcomer, placed by",
        "3 clients in a plane that holds 100 % of the variance",
        "group 0: 2 clients, mean 81.25 %; group 5: 1 clients, mean 37.50 %.",
        "silhouettes at round 4: 2 groups 0.75. Chosen: 2 groups, silhouette 0.75.",
        "62.5 %, 25.0 %, 12.5 %. The first 2 of 3 are kept and hold 87.5 %.",
        "change of descriptors 0.10, of heads 1.00. Blue: personal encoders came into "
        "use at round 4.",
        "3 clients have an entry; half are older than 1 rounds or as old, the oldest "
        "is 3.",
    ):
        assert fact in joined


def test_ids_and_what_refers_to_them_agree(drawn):
    text = report_of(drawn)
    ids = re.findall(r'\bid="([^"]*)"', text)

    assert len(ids) == len(set(ids))
    assert {*re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)}
    for pair in re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text):
        assert "".join(pair) in ids


def test_numbers_are_those_of_the_summary(path):
    summary = json.loads((path / "summary.json").read_text())
    # Not what metrics.csv would give: the page must not compute it anew.
    summary["accuracy"] = {
        **{"mean": 0.6101, "weighted_mean": 0.6202, "std": 0.0303},
        **{"worst": 0.3404, "bottom20": 0.3505, "gap": 0.4606},
    }
    summary["unseen"]["mean"] = 0.5707
    (path / "summary.json").write_text(json.dumps(summary))

    shown = page_of(path).text

    for value in [*summary["accuracy"].values(), summary["unseen"]["mean"]]:
        assert per_cent(value) in shown
    for client in summary["per_client"]:
        assert f"{per_cent(client['accuracy'])}{client['loss']:.4f}" in shown
    for value in summary["traffic"].values():
        assert size(value) + f"{value:,}".replace(",", " ") in shown
    for value in summary["seconds"].values():
        assert f"{value:.1f}" in shown
    assert "server, the rest0.5total81.0work of clients, added up6.8" in shown
    assert f"after 4 of 4 whole rounds, {duration(81.0)}." in shown
    for value in summary["failures"][0].values():
        assert str(value) in shown


def test_the_worst_and_the_unseen_are_named(path):
    rows = re.findall(r"<tr class=\"(\w*)\">(.*?)</tr>", _table(path))
    cells = [re.findall(r">([^<]*)</t", row) for _, row in rows]

    assert [row[0] for row in cells] == ["1", "0", "2", "3"]
    assert [row[-1] for row in cells] == ["worst", "", "", "unseen: never trains"]
    assert [kind for kind, _ in rows] == ["marked", "", "", ""]


def _table(path):
    run = load(path)
    text = run_page(run, [], run.missing)
    start = text.index("lowest accuracy first")
    return text[text.index("<tbody>", start) : text.index("</tbody>", start)]


def test_who_never_trained_is_flagged_and_not_the_worst(path):
    summary = json.loads((path / "summary.json").read_text())
    summary["per_client"][1]["trained"] = False
    (path / "summary.json").write_text(json.dumps(summary))

    assert re.search(
        r"never trained so far</td></tr><tr class=\"marked\"", _table(path)
    )


def test_unseen_clients_are_told_by_model_if_there_are_several(path):
    summary = json.loads((path / "summary.json").read_text())
    assert "Unseen clients" not in page_of(path).text
    summary["unseen"] |= {
        "worst": 0.4304,
        "models": {
            "personal": {"mean": 0.5101, "worst": 0.4304},
            "shared": {"mean": 0.3203, "worst": 0.2102},
        },
    }
    (path / "summary.json").write_text(json.dumps(summary))
    shown = page_of(path).text
    assert "personal encoder, fitted head51.01 %43.04 %" in shown
    assert "shared encoder, same head32.03 %21.02 %" in shown


def test_changed_settings_come_first_with_their_defaults(tmp_path):
    path = write_run(tmp_path / "run", **{"local.lr": 0.125})
    shown = page_of(path).text

    every = f"All {len(defaults())} settings"
    changed = shown[shown.index("differs from") : shown.index(every)]
    assert "local.lr0.1250.05" in changed
    assert "output.name" not in changed
    assert "local.momentum" not in changed
    assert "local.momentum0.9" in shown


def test_a_model_of_another_width_is_called_so(tmp_path):
    narrow = write_run(tmp_path / "narrow", **{"model.width": 0.25})
    usual = write_run(tmp_path / "usual")

    assert "model cnn, width 0.25, seed" in page_of(narrow).text
    assert "model cnn, seed" in page_of(usual).text


def test_origin_and_notes_are_told(path):
    shown = page_of(path).text

    for text in ("9.8.7", "abc123", "digits-0123", "two samples to client 1"):
        assert text in shown


def test_a_failed_run_says_why_at_the_top(tmp_path):
    path = tmp_path / "run"
    write_run(path, status="failed", error="disk\n  full", rounds=2)
    page = page_of(path)

    banner = next(a for a in page.named("div") if "banner" in (a["class"] or ""))
    assert banner["class"] == "banner failed"
    assert "Failed after 4 of 4 whole rounds" in page.text
    assert "This is not a result." in page.text
    assert page.text.index("disk\n  full") < page.text.index("mean of clients")


def test_a_run_that_stopped_at_once_lacks_almost_everything(path):
    for name in ("manifest.json", "metrics.csv", "timing.csv"):
        (path / name).unlink()
    (path / "summary.json").write_text('{"status": "interrupted", "error": "stopped"}')
    page = Page(write_report(path).read_text("utf-8"))

    assert "There is no accuracy" in page.text
    for name in ("manifest.json", "metrics.csv", "timing.csv", "refreshes.csv"):
        assert f"{name} is missing" in page.text
    assert page.named("svg") == []


def test_a_killed_run_shows_its_last_evaluation(path):
    (path / "summary.json").unlink()
    shown = page_of(path).text

    assert "Unfinished" in shown
    assert "summary.json is missing" in shown
    assert "mean of clients66.67 %" in shown
    assert "worst client37.50 %" in shown


def test_hostile_names_are_text(tmp_path):
    path = write_run(tmp_path / "<b>run&amp;", error='<img src=x onerror="a()">')
    summary = json.loads((path / "summary.json").read_text())
    for k, name in enumerate(["<script>x</script>", "$\\frac$", '" onload="x', "]]>"]):
        summary["per_client"][k]["name"] = name
    (path / "summary.json").write_text(json.dumps(summary))

    page = Page(write_report(path).read_text("utf-8"))

    assert not page.named("script")
    assert not page.named("b")
    assert not page.named("img")
    assert all("onload" not in attributes for _, attributes in page.tags)
    for name in ("<script>x</script>", "$\\frac$", '" onload="x', "<b>run&amp;"):
        assert name in page.text


def test_reports_of_equal_runs_are_equal_bytes(drawn):
    first = {f: f.read_bytes() for f in (drawn / "figures").iterdir()}
    page = report_of(drawn)
    write_report(drawn)

    assert {f: f.read_bytes() for f in first} == first
    assert report_of(drawn) == page


def test_a_report_that_fails_harms_nothing(path, monkeypatch, caplog):
    before = (path / "summary.json").read_bytes()

    def broken(run):
        raise RuntimeError("no fonts")

    monkeypatch.setattr(build, "draw", broken)
    try_report(path)

    assert "no fonts" in caplog.text
    assert f"fedapp report {path}" in caplog.text
    assert (path / "summary.json").read_bytes() == before


@pytest.mark.parametrize("fails", [False, True])
def test_every_run_ends_with_a_report(run, tmp_path, fails):
    changes = {"output__report": True, "rounds__count": 1}
    if fails:
        with pytest.raises(RuntimeError):
            run("fedavg", "one", local__lr=1e30, **changes)
    else:
        run("fedavg", "one", **changes)

    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    shown = Page((tmp_path / "one" / "report.html").read_text("utf-8")).text
    assert ("Failed" if fails else per_cent(summary["accuracy"]["mean"])) in shown


def test_a_run_has_not_ended_before_its_report_is_there(run, monkeypatch):
    seen = []

    def look(path):
        assert (path / "summary.json").exists()
        seen.append(launch.read_json(path / "progress.json")["status"])

    monkeypatch.setattr(server_app, "try_report", look)
    finished = run("fedavg", output__report=True, rounds__count=1)

    assert seen == ["running"]
    assert launch.read_json(finished.path / "progress.json")["status"] == "completed"


def test_the_launcher_writes_a_report_that_is_missing(path, tmp_path):
    launch.ensure_report(tmp_path / "none")
    launch.ensure_report(path)
    assert "mean of clients" in report_of(path)

    (path / "report.html").write_text("mine")
    launch.ensure_report(path)
    assert report_of(path) == "mine"
    assert not (tmp_path / "none").exists()
