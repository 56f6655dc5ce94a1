"""The frame of a page: one file, nothing from elsewhere, light and dark, any width."""

from fedapp.report.drawing import Drawn, inline
from fedapp.report.html import Html, join, tag

WORDS = {
    "completed": "Completed",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "running": "Unfinished",
}

CSS = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1f2329; --muted: #59616b; --line: #d3d9e0;
  --back: #f5f7f9; --link: #1c5fa8; --good: #1a7f37; --bad: #b42318; --warn: #8a5a00;
  --mark: #fff1e6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171b21; --ink: #e6e9ed; --muted: #a3acb7; --line: #39414b;
    --back: #0f1216; --link: #7db4f5; --good: #56c271; --bad: #ff8f85; --warn: #e3b341;
    --mark: #3a2618;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 76rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.lead, .small, figcaption, caption { color: var(--muted); }
.small, figcaption { font-size: .9rem; }
.banner {
  margin: 1rem 0; padding: .6rem .9rem; background: var(--paper);
  border: 1px solid var(--line); border-left: .4rem solid var(--muted);
  border-radius: .3rem; overflow-wrap: anywhere;
}
.banner.completed { border-left-color: var(--good); }
.banner.failed { border-left-color: var(--bad); }
.banner.interrupted, .banner.running { border-left-color: var(--warn); }
.banner pre { white-space: pre-wrap; margin: .4rem 0 0; font-size: .85rem; }
.numbers {
  display: grid; gap: .75rem; margin: 0;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
}
.numbers div {
  background: var(--paper); border: 1px solid var(--line); border-radius: .3rem;
  padding: .6rem .9rem; display: flex; flex-direction: column-reverse;
  justify-content: flex-end;
}
.numbers dt { color: var(--muted); font-size: .9rem; }
.numbers dd { margin: 0; font-size: 1.6rem; font-weight: 600; line-height: 1.25; }
.figures {
  display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
}
figure {
  margin: 0; padding: .75rem; background: var(--paper);
  border: 1px solid var(--line); border-radius: .3rem;
}
figure h3 { font-size: 1rem; margin: 0 0 .4rem; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { margin-top: .4rem; }
.scroll {
  width: fit-content; max-width: 100%; overflow-x: auto; margin: .75rem 0;
  background: var(--paper); border: 1px solid var(--line); border-radius: .3rem;
}
.figures .scroll:first-child { margin-top: 0; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; min-width: 18rem; font-size: .92rem; }
caption { text-align: left; padding: .5rem .75rem; font-size: .9rem; }
th, td { padding: .3rem .75rem; text-align: left; border-top: 1px solid var(--line);
  vertical-align: top; }
thead th { font-weight: 600; color: var(--muted); white-space: nowrap; }
tbody th { font-weight: 400; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.marked { background: var(--mark); }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--link); }
ul { padding-left: 1.2rem; margin: .4rem 0; }
li { overflow-wrap: anywhere; }
footer { margin-top: 2.5rem; color: var(--muted); font-size: .9rem; }
@media (max-width: 34rem) {
  main { padding: 1rem .6rem 2rem; }
  .numbers { grid-template-columns: 1fr 1fr; gap: .5rem; }
  .numbers dd { font-size: 1.3rem; }
  figure { padding: .5rem .4rem; }
  th, td, caption { padding-left: .5rem; padding-right: .5rem; }
}
@media print {
  :root { --back: #ffffff; }
  figure, .numbers div, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
}
"""


def page(title: str, *inside: str) -> str:
    """Return a whole HTML document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(CSS)),
    )
    body = tag("body", tag("main", *inside))
    return f'<!DOCTYPE html>\n<html lang="en">{join([head, body])}</html>\n'


def banner(status: str, text: str, *, detail: str = "") -> Html:
    """Return a line that says how a run ended; ``detail`` is set as it was written."""
    more = [tag("pre", detail)] if detail else []
    return tag(
        "div",
        tag("strong", WORDS.get(status, status)),
        f" {text}",
        *more,
        class_=f"banner {status}",
        role="status",
    )


def numbers(pairs: dict[str, str]) -> Html:
    """Return the numbers to see first, each with its name."""
    return tag(
        "dl",
        *(tag("div", tag("dt", k), tag("dd", v)) for k, v in pairs.items()),
        class_="numbers",
    )


def figure(drawn: Drawn) -> Html:
    """Return a figure with title, caption and a text for those who cannot see it."""
    return tag(
        "figure",
        tag("h3", drawn.title),
        tag(
            "div",
            Html(inline(drawn.svg, name=drawn.name)),
            role="img",
            aria_label=drawn.alt,
        ),
        tag("figcaption", drawn.caption),
    )


def bullets(items: tuple[str, ...] | list[str]) -> Html:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))
