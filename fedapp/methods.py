"""THE TABLE of methods: a name picks both halves, server and client."""

import functools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from client_apps.conditional import LocalConditional, condition_of
from client_apps.dac import LocalDac
from client_apps.ditto import LocalDitto
from client_apps.emd_cfl import LocalEmdCfl
from client_apps.fedala import LocalFedALA
from client_apps.fedavg_se import LocalFedAvgSE
from client_apps.fedbabu import LocalFedBABU
from client_apps.fedce import LocalFedCE
from client_apps.fedmps import LocalFedMPS
from client_apps.fednh import LocalFedNH
from client_apps.fedper import LocalFedPer
from client_apps.fedproto import LocalFedProto
from client_apps.fedrep import LocalFedRep
from client_apps.fedsap import LocalFedSAP
from client_apps.fedsoft import LocalFedSoft
from client_apps.hdc_fl import LocalHdcFl
from client_apps.ifca import LocalIfca
from client_apps.local_only import LocalAlone
from client_apps.pacfl import LocalPacfl
from client_apps.pfedcs import LocalPFedCS
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
from fedapp.data.images import DATASETS, ImageSet
from fedapp.data.manifest import Manifest
from fedapp.data.shift import parse_shift
from fedapp.model_mix import unknown_in
from fedapp.models import MODELS, Change, Classifier, ImageShape, build
from fedapp.params import Payload
from fedapp.statistics.diagnosis import diagnose
from fedapp.strategy import RoundStrategy
from fedapp.turn import State
from strategies.conditional import Conditional
from strategies.dac import Dac
from strategies.emd_cfl import EmdCfl
from strategies.fedavg import FedAvg
from strategies.fedavg_se import FedAvgSE
from strategies.fedce import FedCE
from strategies.fedmps import FedMPS
from strategies.fednh import FedNH
from strategies.fedper import FedPer
from strategies.fedproto import FedProto
from strategies.fedsap import FedSAP
from strategies.fedsoft import FedSoft
from strategies.hdc_fl import HdcFl
from strategies.ifca import Ifca
from strategies.local_only import LocalOnly
from strategies.oracle import Oracle
from strategies.pacfl import Pacfl
from strategies.pfedcs import PFedCS

GROUP = "fedapp.methods"
"""Entry-point group in which other packages offer a ``Method``."""


Diagnose = Callable[[LocalAlgorithm, ImageSet, Manifest, State], Mapping[str, Payload]]


@dataclass(frozen=True)
class Method:
    """The two halves of a method and one line about it.

    The fields that the halves declare as ``Annotated[..., pydantic.Field(...)]`` are
    the settings of the table ``section`` (the method's name if empty). A method from
    another package has its settings in the text of ``plugin.settings``, read as TOML,
    and ``plugin``, its pydantic model, checks them. ``change`` makes, of these
    settings, what the method does to the run's model when it is built; the same
    settings give equal values. ``diagnose`` returns tensors to be written into the run
    folder of a simulation, by file: for reports, never for training. ``models`` says
    whether clients may have different ones: ``any`` if nothing of them is sent,
    ``same-width`` if their embeddings are compared.
    """

    server: type[RoundStrategy]
    client: type[LocalAlgorithm]
    summary: str
    section: str = ""
    plugin: type[BaseModel] | None = None
    change: Callable[[Mapping[str, Any]], Change] | None = None
    diagnose: Diagnose | None = None
    models: Literal["same", "same-width", "any"] = "same"

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
    "fedrep": Method(
        FedPer, LocalFedRep, "FedPer, head first and encoder after it (Collins 2021)"
    ),
    "fedbabu": Method(
        FedPer, LocalFedBABU, "shared encoder, fixed head, tuned at the end (Oh 2022)"
    ),
    "fedala": Method(
        FedAvg, LocalFedALA, "FedAvg from a learned mix with the own model (Zhang 2023)"
    ),
    "pfedcs": Method(
        PFedCS, LocalPFedCS, "FedPer that first learns from similar heads (Wu 2025)"
    ),
    "local": Method(
        LocalOnly,
        LocalAlone,
        "every client alone, no communication",
        "local-only",
        models="any",
    ),
    "fedproto": Method(
        FedProto,
        LocalFedProto,
        "own models, shared class prototypes (Tan 2022)",
        models="same-width",
    ),
    "fednh": Method(
        FedNH, LocalFedNH, "shared encoder, head of slow unit prototypes (Dai 2023)"
    ),
    "fedmps": Method(
        FedMPS, LocalFedMPS, "prototypes of two layers, soft labels (Yang 2025)"
    ),
    "fedsap": Method(
        FedSAP,
        LocalFedSAP,
        "FedProto with scheduled alignment and separated classes",
        models="same-width",
    ),
    "pacfl": Method(
        Pacfl,
        LocalPacfl,
        "one model per cluster of clients with similar images (Vahidian 2023)",
    ),
    "emd-cfl": Method(
        EmdCfl,
        LocalEmdCfl,
        "one model per neighbourhood of embedding distributions (Zhang 2025)",
    ),
    "fedsoft": Method(
        FedSoft,
        LocalFedSoft,
        "own models, pulled to mixtures of cluster models (Ruan 2022)",
    ),
    "fedce": Method(
        FedCE,
        LocalFedCE,
        "cluster models, averaged by how clients' losses belong (Cai 2023)",
    ),
    "hdc-fl": Method(
        HdcFl, LocalHdcFl, "soft mixtures of group encoders, grouped by head geometry"
    ),
    "conditional": Method(
        Conditional,
        LocalConditional,
        "one model that sees a statistic of its client (Brännvall 2026)",
        change=condition_of,
        diagnose=diagnose,
    ),
    "oracle": Method(
        Oracle, LocalSGD, "FedAvg within each true group, which it is told"
    ),
    "ifca": Method(
        Ifca, LocalIfca, "cluster models, each client picks the best (Ghosh 2020)"
    ),
    "ditto": Method(
        FedAvg, LocalDitto, "FedAvg, and own models pulled towards it (Li 2021)"
    ),
    "dac": Method(
        Dac, LocalDac, "models of similar peers, drawn softly (Listo Zec 2022)"
    ),
}


@functools.cache
def table() -> dict[str, Method]:
    """Return all methods by name: ours, then those of installed packages.

    Raises
    ------
    SettingsError
        If a package offers a name that is taken, something that is no ``Method``, or
        what cannot be loaded.
    """
    found = dict(METHODS)
    for point in entry_points(group=GROUP):
        if point.name in found:
            raise SettingsError(
                f"package {point.value!r} offers a method {point.name!r}, but that "
                "name is taken: rename its entry point or uninstall it"
            )
        try:
            method = point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            raise SettingsError(
                f"the method {point.name!r} of package {package!r} cannot be loaded "
                f"({type(error).__name__}: {error}): repair or uninstall the package"
            ) from error
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


def change_of(settings: Settings) -> Change | None:
    """Return what the run's method does to a model that was just built, if anything."""
    make = method_named(settings.method).change
    return None if make is None else make(settings.table)


def network(
    settings: Settings, image: ImageShape, classes: int, *, seed: int, name: str = ""
) -> Classifier:
    """Return the model of a run, or another of that name, for these images."""
    model = settings.model
    return build(
        name or model.name,
        image,
        classes,
        seed=seed,
        width=model.width,
        projection=model.projection,
        change=change_of(settings),
    )


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
        *_mixed(name, method, settings),
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


def _mixed(name: str, method: Method, settings: Settings) -> list[str]:
    """Return what is wrong with the models of a mix."""
    mix = settings.model.mix
    if not mix:
        return []
    found = []
    for unknown in unknown_in(mix):
        hint = suggestion(unknown, MODELS) or "; see: fedapp settings"
        found.append(f"model.mix = {mix!r}: there is no model {unknown!r}{hint}")
    if not may_differ(method, settings):
        able = [other for other, row in table().items() if row.models != "same"]
        found.append(
            f"model.mix = {mix!r}: method {name!r} needs the same model on every "
            f"client; these do not: {', '.join(able)}"
        )
    return found


def may_differ(method: Method, settings: Settings) -> bool:
    """Return whether clients may have different models under these settings."""
    return method.models != "same" and not settings.table.get("share_encoder")


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
