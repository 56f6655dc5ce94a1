"""Prototypes in messages: rows of known classes, and which classes those are."""

import torch
from torch import Tensor

from fedapp.params import Payload
from fedapp.prototypes import Bank
from fedapp.turn import Spec

Parts = dict[str, dict[str, Tensor]]


def to_parts(bank: Bank, *, name: str = "protos") -> Parts:
    """Return known prototypes and their classes as the parts of a message."""
    classes = bank.classes.to(torch.int32)
    return {name: {"values": bank.values[bank.known]}, "classes": {"values": classes}}


def from_parts(received: Payload, classes: int, *, name: str = "protos") -> Bank:
    """Return the bank of ``classes`` classes that ``to_parts`` sent."""
    values, index = received[name]["values"], received["classes"]["values"].long()
    known = torch.zeros(classes, dtype=torch.bool)
    known[index] = True
    table = torch.zeros(classes, values.shape[1])
    table[index] = values
    return Bank(table, known)


def specs(width: int | None, *, name: str = "protos") -> dict[str, dict[str, Spec]]:
    """Return what prototypes in a reply must be; any number of classes may come."""
    return {
        name: {"values": Spec((None, width))},
        "classes": {"values": Spec((None,), torch.int32)},
    }


def counted(counts: Tensor) -> Parts:
    """Return the counts of the classes that have any, as a part of a message."""
    return {"counts": {"values": counts[counts > 0].float()}}


COUNTS = {"counts": {"values": Spec((None,))}}
"""What counts in a reply must be."""


def check_classes(sent: Payload, classes: int, *lists: str) -> None:
    """Raise ValueError if a reply's classes cannot be, or a list does not fit them."""
    index = sent["classes"]["values"]
    wrong = index[(index < 0) | (index >= classes)]
    if len(wrong):
        raise ValueError(
            f"it has a prototype of class {int(wrong[0])}; classes are 0 to "
            f"{classes - 1}"
        )
    if len(index.unique()) != len(index):
        raise ValueError("it has two prototypes of one class")
    if len(index) == 0:
        raise ValueError("it has no prototype")
    for name in lists:
        rows = len(sent[name]["values"])
        if rows != len(index):
            raise ValueError(f"it has {rows} rows of {name} for {len(index)} classes")
    if "counts" in lists:
        counts = sent["counts"]["values"]
        bad = (counts <= 0).nonzero()
        if len(bad):
            where = int(bad[0])
            raise ValueError(
                f"it has {counts[where].item():g} samples of class {int(index[where])}"
            )
