"""HTML from values: whatever is not HTML already is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML; any other text is escaped where it is put into a page."""

    __slots__ = ()


VOID = ("meta", "br", "link")


def tag(name: str, /, *inside: str, **attributes: str) -> Html:
    """Return an element; ``class_`` is the attribute ``class``, ``_`` is a hyphen."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    if name in VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(inside)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Return the parts one after another."""
    return Html("".join(p if isinstance(p, Html) else escape(p) for p in parts))


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Sequence[int] = (0,),
    marked: Iterable[int] = (),
) -> Html:
    """Return a table that scrolls by itself where a screen is too narrow.

    ``text`` has the columns that hold words and are set left; numbers are set right.
    Rows whose index is in ``marked`` stand out.
    """
    kinds = ["" if place in text else "number" for place in range(len(head))]
    chosen = set(marked)
    heads = [
        tag("th", cell, scope="col", class_=kind)
        for cell, kind in zip(head, kinds, strict=True)
    ]
    lines = [
        tag("tr", join(_cells(row, kinds)), class_="marked" if i in chosen else "")
        for i, row in enumerate(rows)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *heads)),
            tag("tbody", *lines),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def section(title: str, *inside: str) -> Html:
    """Return a section with its heading; nothing if there is nothing inside."""
    if not any(inside):
        return Html("")
    return tag("section", tag("h2", title), *inside)


def folded(title: str, *inside: str, open_: bool = False) -> Html:
    """Return what a reader may unfold, without JavaScript."""
    body = join([tag("summary", title), *inside])
    return Html(f"<details{' open' if open_ else ''}>{body}</details>")


def _cells(row: Sequence[str], kinds: Sequence[str]) -> Iterable[Html]:
    for place, (cell, kind) in enumerate(zip(row, kinds, strict=True)):
        if place == 0:
            yield tag("th", cell, scope="row", class_=kind)
        else:
            yield tag("td", cell, class_=kind)
