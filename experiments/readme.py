"""The table inside the README of its folder, between two comments."""

from pathlib import Path

END = "<!-- end of table -->"


def insert(readme: Path, name: str, rows: list[str]) -> str | None:
    """Return the text of a README with the rows of table ``name`` put in.

    They replace what stands between ``<!-- table: name -->`` and
    ``<!-- end of table -->``. None if there is no README, or it has no such place.
    """
    try:
        text = readme.read_text("utf-8")
    except FileNotFoundError:
        return None
    before, start, rest = text.partition(f"<!-- table: {name} -->")
    _, end, after = rest.partition(END)
    if not end:
        return None
    return "\n".join([before + start, "", *rows, "", end + after])
