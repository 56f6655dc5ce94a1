"""Write the table of settings into the page of every method, from the code itself.

    python docs/settings.py

A page is ``docs/methods/NAME.md``; the table stands between two comment lines.
"""

from pathlib import Path

from fedapp.cli.lists import method_rows
from fedapp.methods import METHODS

PAGES = Path(__file__).parent / "methods"
BEGIN, END = "<!-- settings -->", "<!-- end of settings -->"


def settings_table(method: str) -> str:
    """Return the settings of a method as a Markdown table, or a line if it has none."""
    rows = method_rows(method)
    if not rows:
        return "It has no settings of its own."
    head = ["setting", "default", "allowed", "what it is"]
    lines = [head, ["---"] * len(head), *([f"`{name}`", *rest] for name, *rest in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def with_settings(page: str, method: str) -> str:
    """Return a page with its table as it should be.

    Raises
    ------
    ValueError
        If the page lacks the two comment lines.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page of {method} lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{settings_table(method)}\n{END}{after}"


def main() -> None:
    """Write all pages."""
    for method in METHODS:
        page = PAGES / f"{method}.md"
        page.write_text(with_settings(page.read_text("utf-8"), method), "utf-8")


if __name__ == "__main__":
    main()
