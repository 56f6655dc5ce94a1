"""Writing and reading files so that a reader never sees half of one."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
import xxhash
from safetensors import SafetensorError
from safetensors.torch import save_file

from fedapp.layout import Bytes, Place, bytes_of, read_bytes, read_layout, tensor_of
from fedapp.params import Payload

VERSION = 1
"""Of the tensor files; others are refused."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; on success it becomes ``path``.

    The file reaches the disk before its name does, so that power may fail at any time.
    If the body fails, ``path`` is as it was and the temporary file is gone.

    Raises
    ------
    OSError
        If it cannot be written, for instance because the disk is full; the message
        names ``path``.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot write {path}: {reason}") from error
    finally:
        temporary.unlink(missing_ok=True)


def sha256(text: str) -> str:
    """Return the SHA-256 of ``text``, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Replace ``path`` by ``value`` as JSON in one step; NaN is refused.

    Without ``indent`` it is one line, written five times as fast.
    """
    write_text(path, json.dumps(value, indent=indent, allow_nan=False) + "\n")


def write_tensors(path: Path, payload: Payload, **notes: str) -> None:
    """Replace ``path`` by a safetensors file of ``part/name`` entries in one step.

    Beside the notes stands a checksum of each part.
    """
    leaves: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for part, tree in payload.items():
        for name, leaf in tree.items():
            # Safetensors refuses tensors that share memory.
            memory = leaf.untyped_storage().data_ptr()
            own = leaf.detach().clone() if memory in seen else leaf.detach()
            leaves[f"{part}/{name}"] = own.contiguous().cpu()
            seen.add(memory)
    sums = {
        part: _checksum({name: bytes_of(leaves[f"{part}/{name}"]) for name in tree})
        for part, tree in payload.items()
    }
    # One entry: safetensors writes several in an order that differs from run to run.
    about = json.dumps({"version": VERSION, "xxh3": sums, **notes}, sort_keys=True)
    with replacing(path) as temporary:
        save_file(leaves, temporary, metadata={"about": about})


def _checksum(tree: Mapping[str, Bytes]) -> str:
    """Return the XXH3 hash of the bytes of all tensors, by name.

    It takes a sixteenth of the time of a CRC-32, which a server would feel.
    """
    found = xxhash.xxh3_64()
    for name in sorted(tree):
        found.update(tree[name].data)
    return found.hexdigest()


class TensorFile:
    """A safetensors file of named parts, read part by part.

    A part is read into memory of its own rather than mapped: what the disk cannot give
    is then an error, and not the end of the process.

    Raises
    ------
    ValueError
        If the file is truncated or not one of ours; the message names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                self._places, metadata = read_layout(stream)
            about = json.loads(metadata.get("about", "{}"))
        except (OSError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is not a whole tensor file: {error}") from None
        if not isinstance(about, dict) or about.pop("version", None) != VERSION:
            raise ValueError(
                f"{path} was not written by this release (tensor files of version "
                f"{VERSION})"
            )
        self._sums: dict[str, str] = about.pop("xxh3", {})
        self.notes: dict[str, str] = about

    def part(self, part: str) -> dict[str, torch.Tensor]:
        """Return the tensors of one part; nothing else is read.

        Raises
        ------
        ValueError
            If they are not what was written; the message names the file.
        """
        places = self._of(part)
        try:
            with self.path.open("rb") as stream:
                found = {n: read_bytes(stream, place) for n, place in places.items()}
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path} cannot be read: {error}") from None
        # Files of the first release have none.
        if part in self._sums and _checksum(found) != self._sums[part]:
            raise ValueError(
                f"{self.path} is damaged: its part {part!r} is not what was written"
            )
        return {n: tensor_of(found[n], place) for n, place in places.items()}

    def span(self, part: str) -> tuple[int, int]:
        """Return the first byte of a part, and the one after its last."""
        places = self._of(part).values()
        ends = [place.start + place.size for place in places]
        return min((p.start for p in places), default=0), max(ends, default=0)

    def payload(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return all parts."""
        parts = dict.fromkeys(name.split("/", 1)[0] for name in self._places)
        return {part: self.part(part) for part in parts}

    def _of(self, part: str) -> dict[str, Place]:
        start = f"{part}/"
        return {
            name[len(start) :]: place
            for name, place in self._places.items()
            if name.startswith(start)
        }
