"""Settings: defaults from pyproject.toml, checked before anything starts."""

import difflib
import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

Scalar = bool | int | float | str
Flat = Mapping[str, Scalar]
T = TypeVar("T")

Share = Annotated[float, Field(ge=0, le=1)]


class SettingsError(ValueError):
    """Settings that cannot be used; the message has one line for each problem."""


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    """A table of settings; names in files have hyphens for underscores."""

    model_config = ConfigDict(
        alias_generator=_kebab,
        allow_inf_nan=False,
        extra="forbid",
        frozen=True,
        strict=True,
    )


def about(text: str, **limits: Any) -> Any:
    """Return a pydantic field with a one-line description and limits, no default."""
    return Field(description=text, **limits)


class DataSettings(Section):
    """Where the images come from and who holds which."""

    name: str = about("data set; `fedapp datasets` lists them")
    path: str = about("folder or file of the data set; empty: built in, or the hub")
    clients: int = about("number of clients, unseen ones included", ge=1)
    unseen_clients: int = about("the last so many never train, only test", ge=0)
    partition: Literal[
        "iid",
        "dirichlet",
        "label-subset",
        "label-proportions",
        "n-way-k-shot",
        "natural",
    ] = about("how samples are divided among clients")
    alpha: float = about("Dirichlet concentration: small is uneven", gt=0, le=1e6)
    classes_per_client: int = about(
        "classes of a client under label-subset, on average under n-way-k-shot", ge=1
    )
    ways_spread: int = about(
        "n-way-k-shot: a client's classes are so many fewer or more at most", ge=0
    )
    shots: int = about("n-way-k-shot: training samples of each class", ge=1)
    shift: str = about(
        "none, rotation, photometric, label-window, label-permutation, joined by +"
    )
    shift_groups: str = about("number of shift groups; crossed: one per shift, 2x5")
    samples_per_client: int = about("training samples of a client; 0: all", ge=0)
    test_fraction: float = about("share of a client's samples for testing", gt=0, lt=1)
    official_split: bool = about("take test samples from the official test split")
    augment: bool = about("random crops and flips of training batches")
    label_fraction: float = about(
        "share of a client's training labels that are known, one a class at least",
        gt=0,
        le=1,
    )
    image_column: str = about("column with the images; empty: the data set's usual")
    label_column: str = about("column with the labels; empty: the data set's usual")
    client_column: str = about("column with the owner; empty: the data set's usual")


class ModelSettings(Section):
    """The network."""

    name: str = about("network: mlp, cnn, cnn-small, cnn-128, resnet18, mobilenet-v2")
    width: float = about("multiplies the channels of its layers", gt=0, le=16)
    mix: str = about(
        "networks dealt over clients, as in cnn,mlp,resnet18; empty: the same for all"
    )
    projection: int = about("size of embeddings, by a linear layer; 0: none", ge=0)


class RoundSettings(Section):
    """How often, with whom, and how long to wait."""

    count: int = about("number of rounds", ge=1)
    fraction: float = about("share of the clients that train in a round", gt=0, le=1)
    evaluate_every: int = about("rounds between evaluations; the last has one", ge=1)
    min_replies: Share = about(
        "share of those asked that must answer; 0: 1.0 simulated, 0.5 on devices"
    )
    retries: int = about(
        "on devices: how often a round with too few replies is repeated", ge=0
    )
    wait_seconds: float = about("how long to wait for clients to register", gt=0)
    reply_seconds: float = about("how long to wait for one reply", gt=0)


class LocalSettings(Section):
    """Training on a client."""

    epochs: int = about("passes over a client's samples in a round", ge=1)
    batch_size: int = about("samples in a batch", ge=1)
    lr: float = about("SGD learning rate", gt=0)
    momentum: float = about("SGD momentum", ge=0, lt=1)
    weight_decay: float = about("SGD weight decay", ge=0)
    threads: int = about("CPU threads of one worker", ge=1)
    device: Literal["auto", "cpu", "cuda"] = about("where clients train")
    precision: Literal["float32", "bfloat16"] = about("bfloat16: autocast, CUDA only")


class MemorySettings(Section):
    """Where clients keep what they never send."""

    store: Literal["auto", "folder", "context"] = about(
        "a folder, or Flower's context.state; auto: folder"
    )


class CheckpointSettings(Section):
    """How often a run is made durable."""

    every: int = about("rounds between commits to disk; the last has one", ge=1)


class OutputSettings(Section):
    """Where the results go."""

    dir: str = about("folder of all run folders")
    name: str = about("name of this run's folder; empty: method, data, seed, time")
    resume: bool = about("go on with the run in that folder; see fedapp run --resume")
    report: bool = about("write report.html and figures when the run ends")


class PluginSettings(Section):
    """Settings of methods from other packages."""

    settings: str = about("TOML text, checked by the plug-in's own model")


class Settings(Section):
    """All settings of a run; ``table`` holds those of its method."""

    method: str = about("what to run; `fedapp methods` lists them")
    seed: int = about("everything random follows from it", ge=0, lt=2**31)
    data: DataSettings
    model: ModelSettings
    rounds: RoundSettings
    local: LocalSettings
    memory: MemorySettings
    checkpoint: CheckpointSettings
    output: OutputSettings
    plugin: PluginSettings
    table: dict[str, Scalar] = Field(exclude=True)


SECTIONS: dict[str, type[Section]] = {
    "data": DataSettings,
    "model": ModelSettings,
    "rounds": RoundSettings,
    "local": LocalSettings,
    "memory": MemorySettings,
    "checkpoint": CheckpointSettings,
    "output": OutputSettings,
    "plugin": PluginSettings,
}
"""The tables that every method shares."""


@functools.cache
def project_file() -> Path:
    """Return the app's pyproject.toml: beside the packages, or inside a wheel."""
    here = Path(__file__).resolve().parent
    for candidate in (here.parent / "pyproject.toml", here / "pyproject.toml"):
        if candidate.is_file() and "tool.flwr.app" in candidate.read_text("utf-8"):
            return candidate
    raise SettingsError(
        f"the app's pyproject.toml is missing beside {here}: install the app again"
    )


@functools.cache
def _default_items() -> tuple[tuple[str, Scalar], ...]:
    project = tomllib.loads(project_file().read_text("utf-8"))
    return tuple(flatten(project["tool"]["flwr"]["app"]["config"]).items())


def defaults() -> dict[str, Scalar]:
    """Return every setting with its default, by dotted name."""
    return dict(_default_items())


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    """Return nested tables as one, with dotted names, as Flower does."""
    flat: dict[str, Scalar] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def table_fields(*classes: type) -> dict[str, tuple[Any, FieldInfo]]:
    """Return the settings that dataclasses declare: fields with a pydantic Field.

    A field that is no setting has no ``Field`` in its ``Annotated`` type.
    """
    found: dict[str, tuple[Any, FieldInfo]] = {}
    for cls in classes:
        hints = get_type_hints(cls, include_extras=True)
        for item in fields(cls):
            notes = getattr(hints[item.name], "__metadata__", ())
            if any(isinstance(note, FieldInfo) for note in notes):
                found[item.name] = (
                    hints[item.name],
                    FieldInfo.from_annotation(hints[item.name]),
                )
    return found


def check(flat: Flat, *, section: str, classes: Iterable[type]) -> Settings:
    """Return checked settings, from a complete flat config.

    Parameters
    ----------
    flat : every setting by dotted name, as Flower hands it to both apps.
    section : the table of the chosen method.
    classes : dataclasses of the method, whose fields are the settings of its table.

    Raises
    ------
    SettingsError
        One line for each wrong setting: its name, its value, what is allowed.
    """
    unknown = [name for name in flat if name not in defaults()]
    if unknown:
        raise SettingsError("\n".join(unknown_setting(name) for name in unknown))
    nested: dict[str, Any] = {name: {} for name in SECTIONS}
    table: dict[str, Scalar] = {}
    for name, value in flat.items():
        head, _, tail = name.rpartition(".")
        if head == "":
            nested[tail] = value
        elif head in SECTIONS:
            nested[head][tail] = _widen(value, name)
        elif head == section:
            table[tail] = _widen(value, name)
    problems: list[str] = []
    model = create_model(
        "Table", __base__=Section, **{n: f for n, f in table_fields(*classes).items()}
    )  # type: ignore[call-overload]
    if section != "plugin":
        try:
            nested["table"] = model.model_validate(table).model_dump()
        except ValidationError as error:
            problems += describe(error, f"{section}.")
    nested.setdefault("table", {})
    try:
        settings = Settings.model_validate(nested)
    except ValidationError as error:
        raise SettingsError("\n".join(describe(error) + problems)) from None
    problems += _impossible(settings)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _widen(value: Scalar, name: str) -> Scalar:
    """Return an integer as float where the default is a float (``local.lr=1``)."""
    if type(value) is int and isinstance(defaults().get(name), float):
        return float(value)
    return value


def _impossible(settings: Settings) -> list[str]:
    """Return what is wrong with settings that are each right."""
    found = []
    if settings.data.unseen_clients >= settings.data.clients:
        found.append(
            f"data.unseen-clients = {settings.data.unseen_clients}: at least one of "
            f"the data.clients = {settings.data.clients} must train"
        )
    if settings.output.resume and not settings.output.name:
        found.append("output.resume = True: output.name must say which run")
    if settings.output.resume and settings.memory.store == "context":
        found.append(
            "output.resume = True: memory.store = 'context' does not survive a crash; "
            "only runs with a folder store can be resumed"
        )
    if settings.local.precision == "bfloat16" and settings.local.device == "cpu":
        found.append(
            "local.precision = 'bfloat16': only with local.device = 'cuda' or 'auto'"
        )
    name = settings.output.name
    if name and (name == ".." or Path(name).name != name):
        found.append(
            f"output.name = {settings.output.name!r}: a plain folder name; the folder "
            "above it is output.dir"
        )
    return found


def describe(
    error: ValidationError, prefix: str = "", known: Iterable[str] | None = None
) -> list[str]:
    """Return one line for each problem: setting, value, what is allowed."""
    lines = []
    for problem in error.errors():
        name = prefix + ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            if known is None:
                lines.append(unknown_setting(name))
            else:
                hint = suggestion(str(problem["loc"][-1]), known)
                lines.append(f"{name}: there is no such setting{hint}")
            continue
        if problem["type"] == "missing":
            lines.append(f"{name}: missing; give it a value")
            continue
        value = problem["input"]
        line = f"{name} = {value!r}: {_rule(problem['msg'])}"
        options = problem.get("ctx", {}).get("expected", "")
        if problem["type"] == "literal_error" and isinstance(value, str):
            line += suggestion(value, [o.strip(" '") for o in _split(options)])
        lines.append(line)
    return lines


def _split(options: str) -> list[str]:
    return options.replace(" or ", ", ").split(",")


def _rule(message: str) -> str:
    return message[0].lower() + message[1:].replace("Input", "input")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for the closest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown_setting(name: str) -> str:
    """Return the error line for a setting that does not exist."""
    known = list(defaults())
    hint = suggestion(name, known)
    if not hint:
        ends = [k for k in known if k.rpartition(".")[2] == name.rpartition(".")[2]]
        hint = f"; did you mean {ends[0]!r}?" if ends else ""
    return f"{name}: there is no such setting{hint or '; see: fedapp settings'}"


def parse_pairs(pairs: Iterable[str]) -> dict[str, Scalar]:
    """Return ``key=value`` words as settings, typed by each setting's default.

    Raises
    ------
    SettingsError
        One line for each word that names no setting or has a value of a wrong type.
    """
    known, found, problems = defaults(), dict[str, Scalar](), []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            problems.append(f"{pair}: expected key=value, as in rounds.count=10")
        elif name not in known:
            problems.append(unknown_setting(name))
        elif name in found:
            problems.append(f"{name}: given twice")
        else:
            try:
                found[name] = _typed(text, known[name])
            except ValueError:
                kind = {bool: "true or false", int: "a whole number"}
                wanted = kind.get(type(known[name]), "a number")
                problems.append(f"{name} = {text!r}: expected {wanted}")
    if problems:
        raise SettingsError("\n".join(problems))
    return found


def _typed(text: str, default: Scalar) -> Scalar:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return type(default)(text)


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return ``cls`` filled by field name from ``values``; other values are left."""
    names = {item.name for item in fields(cls) if item.init}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in values.items() if name in names})
