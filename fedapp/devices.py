"""What a device's owner tells it, what it tells of itself, what devices must share.

A device is a node whose node config has a ``client-id`` and a ``data-path``. Only what
is here and what the method sends leaves it; errors that may name its files do not.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from fedapp.config import Scalar, SettingsError
from fedapp.data.images import ImageSet
from fedapp.files import write_json

NodeConfig = Mapping[str, Scalar]

EXAMPLE = '--node-config \'client-id="a" data-path="/folder"\''
MEMORY = Path(".fedapp") / "memory"
"""Where private memory lies in the home if the node config has no memory-path."""

IGNORED = (
    "data.path",
    "data.partition",
    "data.alpha",
    "data.classes-per-client",
    "data.ways-spread",
    "data.shots",
    "data.shift",
    "data.shift-groups",
    "data.samples-per-client",
    "data.official-split",
)
"""Settings that say how a simulation deals samples."""

_ID = re.compile(r"[^\W_][\w .@+-]{0,63}")


class OwnData(NamedTuple):
    """What a device says of its data; ``class_key`` is a hash of the class names."""

    channels: int
    height: int
    width: int
    classes: int
    class_key: str

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.channels}x{self.height}x{self.width} images, "
            f"{self.classes} classes (names {self.class_key})"
        )


def is_device(node: NodeConfig) -> bool:
    """Return whether a node is a device; any other takes part as in a simulation."""
    return "client-id" in node or "data-path" in node


def check_id(name: str) -> None:
    """Raise ValueError if ``name`` cannot be the id of a device."""
    if not _ID.fullmatch(name):
        raise ValueError(
            f"client-id {name!r} in the node config: give each device a short id of "
            "its own: up to 64 letters, digits, spaces and .@+-_, the first one a "
            "letter or a digit, no slashes"
        )


def data_path(node: NodeConfig, name: str) -> str:
    """Return the ``data-path`` of a device's node config.

    Raises
    ------
    ValueError
        If it has none; the message has nothing personal.
    """
    path = str(node.get("data-path", "")).strip()
    if not path:
        raise ValueError(
            f"device {name!r} has no data-path in its node config; start its SuperNode "
            f"with {EXAMPLE}"
        )
    return path


def memory_folder(node: NodeConfig, name: str, run_key: str) -> Path:
    """Return where device ``name`` keeps the memory of one run.

    Raises
    ------
    ValueError
        If ``run_key``, which the server chose, is no plain folder name.
    """
    if not re.fullmatch(r"\w[\w.-]{0,200}", run_key):
        raise ValueError(f"the server calls its run {run_key!r}: not a folder name")
    given = str(node.get("memory-path", "")).strip()
    base = Path(given).expanduser() if given else Path.home() / MEMORY
    return base / run_key / name


def describe(images: ImageSet) -> OwnData:
    """Return what a device tells the server of its images."""
    channels, height, width = images.images.shape[1:]
    names = json.dumps(images.names).encode()
    key = hashlib.blake2b(names, digest_size=4).hexdigest()
    return OwnData(channels, height, width, images.classes, key)


def agreed(found: Mapping[str, OwnData | None]) -> OwnData:
    """Return the description of data that all devices share.

    Raises
    ------
    ValueError
        If they differ; the message says who has what.
    """
    groups: dict[OwnData | None, list[str]] = {}
    for name, data in found.items():
        groups.setdefault(data, []).append(name)
    first = next(iter(groups))
    if len(groups) == 1 and first is not None:
        return first
    lines = [
        f"\n  {', '.join(map(repr, names))}: {data or 'nothing said'}"
        for data, names in groups.items()
    ]
    raise ValueError(
        "devices have different data; image size and class names must be the same "
        "(a class without images still needs its folder; each device's log lists its "
        "class names):" + "".join(lines)
    )


def shareable(error: Exception) -> str:
    """Return what the server may know of an error on a device.

    Most messages name files of the device's owner, so only its kind is told.
    """
    if isinstance(error, FloatingPointError | SettingsError):
        return f"{type(error).__name__}: {error}"
    return f"{type(error).__name__}; the log of its SuperNode says more"


def run_key(run_dir: Path, names: Sequence[str], data: OwnData) -> str:
    """Return the name under which devices keep this run's memory; new the first time.

    It stands in ``devices.json`` of the run folder, with who is which client. A run
    folder of the same name, made later, has another key, so that no device takes up
    the memory of a run that is gone.

    Raises
    ------
    ValueError
        If the run was begun with other devices.
    """
    path = run_dir / "devices.json"
    clients = {"clients": list(names), "data": data._asdict()}
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        key = str(before.pop("run-key"))
        if before != clients:
            raise ValueError(
                f"this run began with the devices {', '.join(before['clients'])} and "
                f"their data as in {path}; now there are {', '.join(names)}: {data}"
            )
        return key
    plain = re.sub(r"[^\w.-]", "-", run_dir.name).lstrip(".-")[:100] or "run"
    key = f"{plain}-{uuid4().hex[:8]}"
    write_json(path, {"run-key": key, **clients})
    return key
