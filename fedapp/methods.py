"""THE TABLE of methods: a name picks both halves, server and client."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points

from pydantic import BaseModel, ValidationError

from client_apps.fedavg_se import LocalFedAvgSE
from client_apps.fedper import LocalFedPer
from client_apps.hdc_fl import LocalHdcFl
from client_apps.local_only import LocalAlone
from client_apps.sgd import LocalSGD
from fedapp.algorithm import LocalAlgorithm
from fedapp.config import (
    Flat,
    Settings,
    SettingsError,
    check,
    describe,
    suggestion,
    table_fields,
)
from fedapp.data.images import DATASETS
from fedapp.data.shift import parse_shift
from fedapp.models import MODELS
from fedapp.strategy import RoundStrategy
from strategies.fedavg import FedAvg
from strategies.fedavg_se import FedAvgSE
from strategies.fedper import FedPer
from strategies.hdc_fl import HdcFl
from strategies.local_only import LocalOnly

GROUP = "fedapp.methods"
"""Entry-point group in which other packages offer a ``Method``."""


@dataclass(frozen=True)
class Method:
    """The two halves of a method and one line about it.

    The fields that the halves declare as ``Annotated[..., pydantic.Field(...)]`` are
    the settings of the table ``section`` (the method's name if empty). A method from
    another package has its settings in the text of ``plugin.settings``, read as TOML,
    and ``plugin``, its pydantic model, checks them.
    """

    server: type[RoundStrategy]
    client: type[LocalAlgorithm]
    summary: str
    section: str = ""
    plugin: type[BaseModel] | None = None

    @property
    def classes(self) -> tuple[type, type]:
        """Both halves."""
        return self.server, self.client


METHODS = {
    "fedavg": Method(
        FedAvg, LocalSGD, "one global model, averaged by examples (McMahan 2017)"
    ),
    "fedavg-se": Method(
        FedAvgSE, LocalFedAvgSE, "FedAvg with a shared encoder, head global or local"
    ),
    "fedper": Method(
        FedPer, LocalFedPer, "shared encoder, private head (Arivazhagan 2019)"
    ),
    "local": Method(
        LocalOnly, LocalAlone, "every client alone, no communication", "local-only"
    ),
    "hdc-fl": Method(
        HdcFl, LocalHdcFl, "soft mixtures of group encoders, grouped by head geometry"
    ),
}


@functools.cache
def table() -> dict[str, Method]:
    """Return all methods by name: ours, then those of installed packages.

    Raises
    ------
    SettingsError
        If a package offers a name that is taken, or something that is no ``Method``.
    """
    found = dict(METHODS)
    for point in entry_points(group=GROUP):
        if point.name in found:
            raise SettingsError(
                f"package {point.value!r} offers a method {point.name!r}, but that "
                "name is taken: rename its entry point or uninstall it"
            )
        method = point.load()
        if not isinstance(method, Method):
            raise SettingsError(f"{point.value} of group {GROUP} is not a Method")
        found[point.name] = method
    return found


def method_named(name: str) -> Method:
    """Return a method of the table.

    Raises
    ------
    SettingsError
        If there is none of that name; the message names the closest.
    """
    if name not in table():
        hint = suggestion(name, table()) or "; see: fedapp methods"
        raise SettingsError(f"method = {name!r}: there is no such method{hint}")
    return table()[name]


def check_settings(flat: Flat) -> Settings:
    """Return checked settings, from a complete flat config, for both apps.

    Raises
    ------
    SettingsError
        One line for each wrong setting: its name, its value, what is allowed.
    """
    name = str(flat.get("method", ""))
    method = method_named(name)
    ours = method.plugin is None
    settings = check(
        flat,
        section=method.section or name,
        classes=method.classes if ours else (),
    )
    problems = [
        *_unknown("data.name", settings.data.name, DATASETS, "fedapp datasets"),
        *_unknown("model.name", settings.model.name, MODELS, "fedapp settings"),
    ]
    try:
        parse_shift(settings.data.shift, settings.data.shift_groups)
    except ValueError as error:
        problems.append(str(error))
    if ours:
        problems += method.server.conflicts(settings.table)
    if problems:
        raise SettingsError("\n".join(problems))
    if method.plugin is not None:
        values = _plugin_table(settings.plugin.settings, method.plugin)
        return settings.model_copy(update={"table": values})
    if settings.plugin.settings:
        raise SettingsError(f"plugin.settings: method {name!r} is not from a plug-in")
    return settings


def check_for_simulation(settings: Settings) -> None:
    """Raise SettingsError if settings can only be meant for devices."""
    if settings.data.name == "custom" and not settings.data.path:
        raise SettingsError(
            "data.path: the data set 'custom' needs a folder or a file (devices have "
            "their own)"
        )


def _unknown(
    setting: str, value: str, known: Mapping[str, object], where: str
) -> list[str]:
    if value in known:
        return []
    hint = suggestion(value, known) or f"; see: {where}"
    return [f"{setting} = {value!r}: expected one of {', '.join(known)}{hint}"]


def _plugin_table(text: str, model: type[BaseModel]) -> dict[str, object]:
    try:
        return model.model_validate(tomllib.loads(text)).model_dump()
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"plugin.settings: not TOML: {error}") from None
    except ValidationError as error:
        raise SettingsError(
            "\n".join(describe(error, "plugin.settings: ", model.model_fields))
        ) from None


def settings_of(method: Method) -> list[str]:
    """Return the names of a method's own settings."""
    if method.plugin is not None:
        return list(method.plugin.model_fields)
    return list(table_fields(*method.classes))
