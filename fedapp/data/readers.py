"""Find the files of a data set, and decode them: parquet, image folders, .npz."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedapp.data.decoded import Columns, Decoded, Source, number, stack
from fedapp.data.parquet import decode_parquet

READER = 2
"""Raise when the same files decode to something else: caches are built anew."""

SPLITS = {"train": False, "validation": False, "valid": False, "val": False}
SPLITS |= {"test": True}
IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif"}
SHARD = re.compile(rf"({'|'.join(SPLITS)})(-\d+-of-\d+)?\.parquet")


def find_sources(path: Path) -> list[Source]:
    """Return the files at ``path``, training before test, in a fixed order.

    A folder holds ``train.parquet`` and the like (or the hub's ``train-00000-of-...``,
    there or under ``data``), or class folders of images, perhaps under ``train`` and
    ``test``. Validation counts as training.
    """
    try:
        if path.is_file():
            found = [Source(path)] if path.suffix in (".parquet", ".npz") else []
        else:
            if not path.is_dir():
                raise ValueError(f"data.path = {str(path)!r} does not exist")
            found = _shards(path) or _shards(path / "data") or list(_folders(path))
    except OSError as error:
        raise ValueError(
            f"data.path = {str(path)!r} cannot be read: {error}"
        ) from error
    if not found:
        raise ValueError(
            f"data.path = {str(path)!r} holds no data; it may be a .parquet or .npz "
            "file, a folder with train.parquet and test.parquet, or a folder with one "
            "folder of images for each class"
        )
    return sorted(found, key=lambda source: (source.test, str(source.file)))


def _shards(folder: Path) -> list[Source]:
    if not folder.is_dir():
        return []
    matches = ((file, SHARD.fullmatch(file.name)) for file in folder.iterdir())
    return [Source(file, SPLITS[match[1]]) for file, match in matches if match]


def _folders(root: Path) -> Iterator[Source]:
    for test, folder in _classes(root):
        for file in folder.iterdir():
            if file.suffix.lower() in IMAGES:
                yield Source(file, test, folder.name)


def _classes(root: Path) -> Iterator[tuple[bool, Path]]:
    splits = {name: test for name, test in SPLITS.items() if (root / name).is_dir()}
    for name, test in (splits or {"": False}).items():
        for folder in (root / name).iterdir():
            if folder.is_dir() and not folder.name.startswith("."):
                yield test, folder


def class_folders(path: Path) -> tuple[str, ...]:
    """Return the names of the class folders at ``path``, those without images too."""
    return tuple(sorted({folder.name for _, folder in _classes(path)}))


def content_hash(sources: Iterable[Source], classes: Iterable[str] = ()) -> str:
    """Return a hash of contents and roles; where the files lie does not matter."""
    total = hashlib.blake2b(json.dumps([*classes]).encode(), digest_size=16)
    for source in sources:
        try:
            with source.file.open("rb") as file:
                digest = hashlib.file_digest(file, "blake2b").hexdigest()
        except OSError as error:
            raise ValueError(f"{source.file} cannot be read: {error}") from error
        total.update(f"{source.test} {source.label} {digest}\n".encode())
    return total.hexdigest()


def decode(
    sources: list[Source], columns: Columns, classes: Sequence[str] = ()
) -> Decoded:
    """Read every sample; all of one size, grey or colour.

    One colour image makes the set a colour set: grey images are repeated in three
    channels. Text labels are numbered in sorted order; ``classes`` of class folders
    count without an image, so that who has none of a class numbers the others alike.
    """
    if sources[0].file.suffix == ".npz":
        return _decode_npz(sources[0].file)
    if sources[0].label is None:
        return decode_parquet(sources, columns)
    names = [source.label or "" for source in sources]
    labels, found = number(names, "data.path: ", classes)
    images = ((_read(s.file), str(s.file)) for s in sources)
    flags = np.array([source.test for source in sources])
    return Decoded(stack(images, len(sources)), labels, None, flags, found)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _decode_npz(file: Path) -> Decoded:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"{file} cannot be read as .npz without pickled objects: {error}"
        ) from error
    pairs = [("images", "labels"), ("x_train", "y_train"), ("x_test", "y_test")]
    pairs = [pair for pair in pairs if {*pair} <= {*arrays}]
    if not pairs:
        raise ValueError(
            f"{file} has {', '.join(arrays) or 'nothing'}; it needs images and labels, "
            "or x_train, y_train, x_test and y_test"
        )
    images = np.concatenate(
        [_channels_first(arrays[x], f"{file}, {x}") for x, _ in pairs]
    )
    drawn = [np.asarray(arrays[y]).reshape(-1) for _, y in pairs]
    values = np.concatenate(drawn)
    if values.dtype.kind not in "iuU" or len(values) != len(images):
        raise ValueError(
            f"{file}: {len(values)} labels of type {values.dtype} for {len(images)} "
            "images; need one integer or text for each"
        )
    labels, names = number(values.tolist(), f"{file}: ")
    flags = np.repeat([x == "x_test" for x, _ in pairs], [len(y) for y in drawn])
    return Decoded(images, labels, None, flags, names)


def _channels_first(images: NDArray[np.uint8], where: str) -> NDArray[np.uint8]:
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or len(images) == 0:
        raise ValueError(
            f"{where}: {images.dtype} array of shape {images.shape}; need uint8 images "
            "(N, H, W), (N, H, W, C) or (N, C, H, W)"
        )
    if images.ndim == 3:
        return images[:, None]
    if images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if images.shape[1] in (1, 3):
        return images
    raise ValueError(f"{where}: shape {images.shape}; need 1 or 3 channels")
