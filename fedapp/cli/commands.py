"""The commands of ``fedapp``."""

from importlib.metadata import version
from typing import Annotated

import typer

from fedapp.cli import hdc
from fedapp.cli.console import out
from fedapp.cli.doctor import doctor
from fedapp.cli.lists import configurations, datasets, methods, settings
from fedapp.cli.run import run
from fedapp.report import commands as report_commands

app = typer.Typer(
    name="fedapp",
    help="Personalised federated learning on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _common(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    if show_version:
        out.print(f"fedapp {version('fedapp')}")
        raise typer.Exit


for command in (run, doctor, methods, datasets, settings, configurations):
    app.command()(command)
report_commands.register(app)
app.add_typer(hdc.app)
