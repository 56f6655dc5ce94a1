"""HDC-FL's state between rounds, which holds tensors only: written and read back."""

import torch

from fedapp.hdc.refresh import Groups, Refresh
from fedapp.hdc.stability import Gate, Snapshot
from fedapp.params import Params, Payload


def state_of_refresh(found: Refresh) -> Payload:
    """Return what the next rounds need of a refresh."""
    groups, snap = found.groups, found.snapshot
    everyone = len(snap.sampled) == len(snap.clients)
    sampled = {} if everyone else {"sampled": torch.from_numpy(snap.sampled)}
    return {
        "gate": gate_tensors(found.gate),
        "groups": {
            "clients": torch.tensor(list(groups.clients)),
            "labels": torch.from_numpy(groups.labels),
            "weights": torch.from_numpy(groups.weights),
            "ids": torch.tensor(list(groups.ids)),
            "next-id": torch.tensor(found.next_id),
        },
        "snapshot": {
            "clients": torch.from_numpy(snap.clients),
            "labels": torch.from_numpy(snap.labels),
            "similarity": torch.from_numpy(snap.similarity),
            **sampled,
        },
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


def snapshot_of(state: Payload) -> Snapshot | None:
    """Return the snapshot of the last refresh, if there was one."""
    if "snapshot" not in state:
        return None
    snap = {name: leaf.numpy() for name, leaf in state["snapshot"].items()}
    sampled = snap.get("sampled", snap["clients"])
    return Snapshot(snap["clients"], snap["labels"], sampled, snap["similarity"])
