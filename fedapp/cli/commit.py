"""The git commit of the app, to be written down with results."""

import subprocess
from pathlib import Path


def commit_of(folder: Path) -> str:
    """Return the git commit of an app's folder, ``-dirty`` with changes; or nothing."""
    shipped = ["pyproject.toml", "fedapp", "strategies", "client_apps"]
    if _git(folder, "rev-parse", "--show-toplevel") != str(folder.resolve()):
        return ""
    commit = _git(folder, "rev-parse", "HEAD")
    dirty = _git(folder, "status", "--porcelain", "--", *shipped)
    return f"{commit}-dirty" if commit and dirty else commit


def _git(folder: Path, *words: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True
        )
    except OSError:  # git is not installed
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
