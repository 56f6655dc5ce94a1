"""The command line in this process."""

from typer.testing import CliRunner, Result

from fedapp.cli.commands import app


def fedapp(*words: str) -> Result:
    """Return what ``fedapp`` says to ``words``."""
    return CliRunner().invoke(app, list(words))
