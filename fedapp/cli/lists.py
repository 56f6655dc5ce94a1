"""What there is to choose from: methods, data sets, settings."""

from typing import Annotated, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from fedapp.cli.console import BAD_SETTINGS, complain, out, print_table
from fedapp.config import (
    SECTIONS,
    Settings,
    SettingsError,
    defaults,
    table_fields,
)
from fedapp.configurations import configuration
from fedapp.configurations import configurations as all_configurations


def methods() -> None:
    """List the methods."""
    from fedapp.methods import table

    try:
        rows = [[name, method.summary] for name, method in table().items()]
    except SettingsError as problem:  # of a plug-in
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    print_table("Methods", ["name", "what it is"], rows, right=False)


def datasets() -> None:
    """List the data sets."""
    from fedapp.data.images import DATASETS

    rows = [[name, row.about] for name, row in DATASETS.items()]
    print_table("Data sets", ["name", "what it is"], rows, right=False)


def configurations(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this one.")
    ] = None,
) -> None:
    """List the configurations of published studies, or the settings of one."""
    if name is None:
        rows = [[known, c.about] for known, c in all_configurations().items()]
        print_table("Configurations", ["name", "what it is"], rows, right=False)
        out.print("To run one: fedapp run METHOD --configuration NAME data.path=FOLDER")
        return
    try:
        found = configuration(name)
    except SettingsError as problem:
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    for key, value in found.items():
        shown = str(value).lower() if isinstance(value, bool) else value
        out.print(f"{key}={shown}")


def settings(
    method: Annotated[
        str | None, typer.Argument(help="Show this method's own settings.")
    ] = None,
) -> None:
    """List the settings all methods share, or those of one method."""
    head = ["setting", "default", "allowed", "what it is"]
    if method is None:
        print_table("Settings of every method", head, _shared_rows(), right=False)
        out.print("A method's own settings: fedapp settings METHOD")
        return
    try:
        rows = method_rows(method)
    except SettingsError as problem:
        complain(problem)
        raise typer.Exit(BAD_SETTINGS) from None
    if rows:
        print_table(f"Settings of {method}", head, rows, right=False)
    else:
        out.print(f"{method} has no settings of its own.")
    out.print("Settings that every method shares: fedapp settings")


def _shared_rows() -> list[list[str]]:
    plain = {
        name: info for name, info in Settings.model_fields.items() if name in defaults()
    }
    rows = [_row(name, info, defaults()[name]) for name, info in plain.items()]
    for section, model in SECTIONS.items():
        for field, info in model.model_fields.items():
            name = f"{section}.{info.alias or field}"
            rows.append(_row(name, info, defaults()[name]))
    return rows


def method_rows(name: str) -> list[list[str]]:
    """Return name, default, range and purpose of each setting of a method."""
    from fedapp.methods import method_named

    method = method_named(name)
    if method.plugin is not None:
        return [
            _row(f"plugin.settings: {field}", info, info.get_default())
            for field, info in method.plugin.model_fields.items()
        ]
    rows = []
    for field, (_, info) in table_fields(*method.classes).items():
        full = f"{method.section or name}.{field.replace('_', '-')}"
        rows.append(_row(full, info, defaults()[full]))
    return rows


def _row(name: str, info: FieldInfo, default: object) -> list[str]:
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return [name, shown or '""', allowed(info), info.description or ""]


def allowed(info: FieldInfo) -> str:
    """Return the values a setting may have, in a few words."""
    kind = info.annotation
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    limits = [
        f"{sign} {_number(getattr(note, name))}"
        for name, sign in signs.items()
        for note in info.metadata
        if hasattr(note, name)
    ]
    kinds: dict[object, str] = {bool: "true, false", int: "integer", float: "number"}
    return ", ".join([kinds.get(kind, "text"), *limits])


def _number(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
