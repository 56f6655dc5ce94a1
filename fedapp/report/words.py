"""Numbers as text."""


def per_cent(share: float | None) -> str:
    """Return a fraction as per cent with two decimals; a dash for none."""
    return "-" if share is None else f"{100 * share:.2f} %"


def points_of(share: float) -> str:
    """Return a difference of fractions in percentage points, with its sign."""
    text = f"{100 * share:+.2f}"
    return "0.00" if float(text) == 0 else text


def size(count: float) -> str:
    """Return bytes in the largest unit that leaves at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Return seconds; hours and minutes as well when there are any."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    start = f"{hours} h " if hours else ""
    return f"{start}{minutes} min {whole % 60} s"
