"""Writing and reading files so that a reader never sees half of one."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

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


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by ``value`` as JSON in one step; NaN is refused."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_tensors(path: Path, payload: Payload, **notes: str) -> None:
    """Replace ``path`` by a safetensors file of ``part/name`` entries in one step."""
    leaves: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for part, tree in payload.items():
        for name, leaf in tree.items():
            # Safetensors refuses tensors that share memory.
            memory = leaf.untyped_storage().data_ptr()
            own = leaf.detach().clone() if memory in seen else leaf.detach()
            leaves[f"{part}/{name}"] = own.contiguous()
            seen.add(memory)
    # One entry: safetensors writes several in an order that differs from run to run.
    about = json.dumps({"version": VERSION, **notes}, sort_keys=True)
    with replacing(path) as temporary:
        save_file(leaves, temporary, metadata={"about": about})


class TensorFile:
    """A safetensors file of named parts, memory-mapped and read part by part.

    Raises
    ------
    ValueError
        If the file is truncated or not one of ours; the message names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads((file.metadata() or {}).get("about", "{}"))
                self._names = list(file.keys())
        except (SafetensorError, OSError, ValueError) as error:
            raise ValueError(f"{path} is not a whole tensor file: {error}") from None
        if not isinstance(about, dict) or about.pop("version", None) != VERSION:
            raise ValueError(
                f"{path} was not written by this release (tensor files of version "
                f"{VERSION})"
            )
        self.notes: dict[str, str] = about

    def part(self, part: str) -> dict[str, torch.Tensor]:
        """Return the tensors of one part; nothing else is read."""
        start = f"{part}/"
        with safe_open(self.path, framework="pt") as file:
            return {
                name[len(start) :]: file.get_tensor(name)
                for name in self._names
                if name.startswith(start)
            }

    def payload(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return all parts."""
        parts = dict.fromkeys(name.split("/", 1)[0] for name in self._names)
        return {part: self.part(part) for part in parts}
