"""What the doctor found: one fact, whether it is well, and what to do if not."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: a warning may be lived with, a problem stops a run."""

    level: Level
    topic: str
    fact: str
    advice: str = ""


def size(count: float) -> str:
    """Return a number of bytes in words, as 1.5 GB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
