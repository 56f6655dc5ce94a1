"""HDC-FL's state between rounds, which holds tensors only: written and read back."""

import torch

from fedapp.hdc.raw import RawRefresh
from fedapp.hdc.refresh import Groups, Refresh
from fedapp.hdc.stability import Gate, Snapshot
from fedapp.params import Params, Payload

SNAPSHOT, RAW = "snapshot", "raw-snapshot"
"""Parts of the state: the last refresh, and what raw heads would have given."""


def state_of_refresh(found: Refresh, raw: RawRefresh | None = None) -> Payload:
    """Return what the next rounds need of a refresh, and of that of raw heads."""
    more = {} if raw is None else {RAW: snapshot_tensors(raw.snapshot)}
    return {
        "gate": gate_tensors(found.gate),
        "groups": groups_tensors(found.groups, next_id=found.next_id),
        SNAPSHOT: snapshot_tensors(found.snapshot),
        **more,
    }


def without(state: Payload, *parts: str) -> Payload:
    """Return ``state`` without some of its parts, itself if it has none of them."""
    if not state.keys() & set(parts):
        return state
    return {part: tree for part, tree in state.items() if part not in parts}


def groups_tensors(groups: Groups, *, next_id: int) -> Params:
    """Return groups as state; ``next_id`` is the next lasting id never used."""
    return {
        "clients": torch.tensor(list(groups.clients)),
        "labels": torch.from_numpy(groups.labels),
        "weights": torch.from_numpy(groups.weights),
        "ids": torch.tensor(list(groups.ids)),
        "next-id": torch.tensor(next_id),
    }


def snapshot_tensors(snap: Snapshot) -> Params:
    """Return a snapshot as state."""
    sampled = {"sampled": torch.from_numpy(snap.sampled)}
    return {
        "clients": torch.from_numpy(snap.clients),
        "labels": torch.from_numpy(snap.labels),
        "similarity": torch.from_numpy(snap.similarity),
        **({} if snap.complete else sampled),
    }


def gate_tensors(gate: Gate) -> Params:
    """Return the gate as state."""
    return {
        "counter": torch.tensor(gate.counter),
        "failures": torch.tensor(gate.failures),
        "active": torch.tensor(gate.active),
    }


def gate_of(state: Payload) -> Gate:
    """Return the gate in ``state``, closed if there was no refresh."""
    if "gate" not in state:
        return Gate()
    gate = state["gate"]
    return Gate(int(gate["counter"]), int(gate["failures"]), bool(gate["active"]))


def groups_of(state: Payload) -> Groups | None:
    """Return the groups of the last refresh, if there was one."""
    if "groups" not in state:
        return None
    groups = state["groups"]
    return Groups(
        clients=groups["clients"].tolist(),
        labels=groups["labels"].numpy(),
        weights=groups["weights"].numpy(),
        ids=groups["ids"].tolist(),
    )


def snapshot_of(state: Payload, part: str = SNAPSHOT) -> Snapshot | None:
    """Return the snapshot of the last refresh, if there was one; or that of raw heads.

    ``part`` is ``SNAPSHOT`` or ``RAW``.
    """
    if part not in state:
        return None
    snap = {name: leaf.numpy() for name, leaf in state[part].items()}
    sampled = snap.get("sampled", snap["clients"])
    return Snapshot(snap["clients"], snap["labels"], sampled, snap["similarity"])
