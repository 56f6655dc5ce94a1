"""The only file that turns Flower records into tensors and back.

A message holds one array record per part of the payload, ``cfg`` (whose turn it is,
where files are) and ``scalars`` (the method's own numbers). A reply holds its parts,
``met`` (client, examples, seconds), ``metrics`` (the method's own) or ``error``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedapp.algorithm import Scalars, Update
from fedapp.devices import OwnData
from fedapp.memory import Who
from fedapp.params import Params, Payload
from fedapp.versions import Version

RESERVED = ("cfg", "scalars", "met", "metrics", "error")


def to_record(tree: Params) -> ArrayRecord:
    """Return tensors as an array record."""
    return ArrayRecord(
        array_dict={
            name: Array.from_numpy_ndarray(leaf.detach().cpu().contiguous().numpy())
            for name, leaf in tree.items()
        }
    )


def to_params(record: ArrayRecord, part: str = "model") -> dict[str, torch.Tensor]:
    """Return an array record as tensors, which own their memory."""
    tree = {}
    for name, array in record.items():
        try:
            tree[name] = torch.from_numpy(np.array(array.numpy()))
        except (TypeError, ValueError, EOFError) as error:
            raise ValueError(f"tensor {part}/{name} cannot be read: {error}") from None
    return tree


class Packer:
    """Turn payloads into records; the tree packed last is not packed again.

    A broadcast is one tree for all clients: it is packed once and shared. Trees made
    for one client follow each other, and only the last is kept.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[Params, ArrayRecord]] = {}

    def pack(self, payload: Payload) -> dict[str, ArrayRecord]:
        """Return one array record for each part."""
        for part, tree in payload.items():
            if part in RESERVED:
                raise ValueError(f"a payload may not have a part named {part!r}")
            if part not in self._last or self._last[part][0] is not tree:
                self._last[part] = (tree, to_record(tree))
        return {part: self._last[part][1] for part in payload}


def request(
    arrays: Mapping[str, ArrayRecord], cfg: Scalars, scalars: Scalars
) -> RecordDict:
    """Return the content of a message to a client."""
    content = RecordDict(dict(arrays))
    content["cfg"] = ConfigRecord(dict(cfg))
    content["scalars"] = ConfigRecord(dict(scalars))
    return content


def read_request(content: RecordDict) -> tuple[Payload, Scalars, Scalars]:
    """Return payload, cfg and scalars of a message."""
    return (
        payload_of(content),
        to_scalars(content.config_records["cfg"]),
        to_scalars(content.config_records["scalars"]),
    )


def to_scalars(record: ConfigRecord | None) -> Scalars:
    """Return the plain values of a config record; lists and bytes are left out."""
    plain = (bool, int, float, str)
    return {k: v for k, v in (record or {}).items() if isinstance(v, plain)}


def to_metrics(values: Mapping[str, int | float]) -> MetricRecord:
    """Return numbers as a metric record."""
    return MetricRecord({name: value for name, value in values.items()})


def payload_of(content: RecordDict) -> dict[str, dict[str, torch.Tensor]]:
    """Return all array records as tensors."""
    return {part: to_params(rec, part) for part, rec in content.array_records.items()}


def reply(update: Update, *, client: int, seconds: float) -> RecordDict:
    """Return the content of a client's reply."""
    content = RecordDict(dict(Packer().pack(update.sent)))
    content["met"] = MetricRecord(
        {"client-id": client, "num-examples": update.num_examples, "seconds": seconds}
    )
    content["metrics"] = to_metrics(update.metrics)
    return content


def error_reply(cause: str, *, client: int) -> RecordDict:
    """Return the content of a reply that says why there is no result."""
    content = RecordDict({"error": ConfigRecord({"cause": cause})})
    content["met"] = MetricRecord({"client-id": client})
    return content


def read_reply(content: RecordDict, *, asked: Scalars) -> tuple[Update, float]:
    """Return a client's update and its seconds.

    Raises
    ------
    ValueError
        If the client reported an error, or the reply has not the form of one.
    """
    if "error" in content.config_records:
        raise ValueError(str(content.config_records["error"].get("cause", "unknown")))
    met = content.metric_records.get("met")
    if met is None or not {"client-id", "num-examples"} <= met.keys():
        raise ValueError("it has no record 'met' with client-id and num-examples")
    metrics: Mapping[str, Any] = content.metric_records.get("metrics") or {}
    update = Update(
        sent=payload_of(content),
        num_examples=_whole(met["num-examples"]),
        metrics={name: _number(value) for name, value in metrics.items()},
        client=_whole(met["client-id"]),
        asked=asked,
    )
    return update, float(_number(met.get("seconds", 0.0)))


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"it has {value!r} where a number belongs")
    return value


def _whole(value: Any) -> int:
    number = _number(value)
    if number != number or number in (float("inf"), -float("inf")) or number % 1:
        raise ValueError(f"it has {number} where a whole number belongs")
    return int(number)


def who_reply(who: Who) -> RecordDict:
    """Return the content of the answer to a query."""
    return RecordDict(
        {
            "who": ConfigRecord(
                {
                    "client": who.name,
                    "simulated": who.simulated,
                    "clients": who.clients,
                    "images": list(who.data[:-1]) if who.data else [],
                    "class-key": who.data.class_key if who.data else "",
                    "problem": who.problem,
                    "model": who.model,
                }
            )
        }
    )


def read_who(content: RecordDict) -> Who:
    """Return which client a node says it is."""
    record: Mapping[str, Any] = content.config_records.get("who") or {}
    wanted = (
        "client",
        "simulated",
        "clients",
        "images",
        "class-key",
        "problem",
        "model",
    )
    if not {*wanted} <= record.keys():
        raise ValueError("it does not run this app: it did not say who it is")
    data, sizes = None, [int(size) for size in record["images"]]
    if sizes:
        channels, height, width, classes = sizes
        key = str(record["class-key"])
        data = OwnData(channels, height, width, classes, key)
    return Who(
        name=str(record["client"]),
        simulated=bool(record["simulated"]),
        clients=int(record["clients"]),
        data=data,
        problem=str(record["problem"]),
        model=str(record["model"]),
    )


class ContextMemory:
    """A client's memory in Flower's ``context.state``: travels with every message."""

    def __init__(self, state: RecordDict) -> None:
        self._state = state

    def load(self, before: Version) -> dict[str, dict[str, torch.Tensor]]:
        """Return what is remembered."""
        del before
        return payload_of(self._state)

    def save(self, version: Version, memory: Payload) -> None:
        """Remember ``memory`` instead of what was."""
        del version
        for part in list(self._state.array_records):
            del self._state[part]
        for part, tree in memory.items():
            self._state[part] = to_record(tree)

    def drop(self, *, after: Version, before: Version) -> None:
        """Do nothing: there are no versions here."""
        del after, before
