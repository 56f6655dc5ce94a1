"""The command ``fedapp``: run a method, list what exists."""

from fedapp.cli.commands import main

__all__ = ["main"]
