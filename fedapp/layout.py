"""Where the tensors of a safetensors file lie, checked before anything is read.

Reading through the library costs 0.3 ms a file, most of it for mapping memory anew;
a server that keeps 20,000 files reads each of them twice in a refresh. The format is
eight bytes with the length of a JSON header, the header, and the tensors without gaps.
"""

import json
import os
from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

Bytes = NDArray[np.uint8]

LONGEST = 100 * 10**6
"""Bytes of a header; the library's own limit."""


class Place(NamedTuple):
    """Where one tensor lies: its type, its shape, its bytes from ``start`` on."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    size: int


def read_layout(stream: BinaryIO) -> tuple[dict[str, Place], Mapping[str, str]]:
    """Return the place of every tensor, in the order of the file, and the metadata.

    Raises
    ------
    ValueError
        If the file is truncated, longer than it says, or no safetensors file.
    """
    whole = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(8), "little")
    start = 8 + length
    if not 2 <= length <= LONGEST or start > whole:
        raise ValueError("its header is cut off or none")
    header = json.loads(stream.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    metadata = header.pop("__metadata__", {})
    try:
        places = {name: _place(entry, start) for name, entry in header.items()}
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header is wrong: {error!r}") from None
    at = start
    for place in sorted(places.values(), key=lambda place: (place.start, place.size)):
        if place.start != at:
            raise ValueError("its tensors overlap or leave gaps")
        at += place.size
    if at != whole:
        raise ValueError(f"it has {whole} bytes instead of {at}")
    return places, metadata


def read_bytes(stream: BinaryIO, place: Place) -> Bytes:
    """Return the bytes of one tensor, in memory of their own.

    Raises
    ------
    ValueError
        If the file ends before the tensor does.
    """
    found = np.empty(place.size, dtype=np.uint8)
    stream.seek(place.start)
    if stream.readinto(found) != place.size:  # type: ignore[attr-defined]
        raise ValueError("it was cut off while it was read")
    return found


def tensor_of(bytes_: Bytes, place: Place) -> Tensor:
    """Return the tensor that these are the bytes of, without a copy."""
    if place.size == 0:
        return torch.empty(place.shape, dtype=place.dtype)
    return torch.from_numpy(bytes_).view(place.dtype).reshape(place.shape)


def bytes_of(leaf: Tensor) -> Bytes:
    """Return the bytes of a tensor that lies in one piece, without a copy."""
    return leaf.reshape(-1).view(torch.uint8).numpy()


def _place(entry: Any, start: int) -> Place:
    dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
    first, last = entry["data_offsets"]
    size = prod(shape) * dtype.itemsize
    if first < 0 or last - first != size or any(length < 0 for length in shape):
        raise ValueError("the size of a tensor does not fit its shape")
    return Place(dtype, shape, start + first, size)
