"""Image data sets by name, decoded once and memory-mapped from then on."""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedapp.data.decoded import Columns, Decoded
from fedapp.data.readers import (
    READER,
    class_folders,
    content_hash,
    decode,
    find_sources,
)

ABOUT = "about.json"


@dataclass(frozen=True)
class ImageSet:
    """A labelled data set; arrays are read-only and images live on disk.

    ``images`` are uint8 (N, C, H, W); ``labels`` int64 (N,), ``0..classes - 1``;
    ``owners`` the number of each sample's natural client, negative for none;
    ``official_test`` marks samples of the official test split. ``mean`` and ``std``
    are public constants per channel for pixels in 0..1. ``key`` names the contents,
    ``names`` the classes in the order of their numbers.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    owners: NDArray[np.int64] | None
    official_test: NDArray[np.bool_]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    key: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """A row of the table: description, hub name, columns, normalisation."""

    about: str
    hub: str
    columns: Columns
    mean: tuple[float, ...]
    std: tuple[float, ...]


GREY = Columns("image", "label", "")
DATASETS = {
    "digits": Dataset(
        "1,797 8x8 digits that come with scikit-learn", "", GREY, (0.3053,), (0.3759,)
    ),
    "mnist": Dataset("70,000 28x28 digits", "ylecun/mnist", GREY, (0.1307,), (0.3081,)),
    "fashion-mnist": Dataset(
        "70,000 28x28 pieces of clothing",
        "zalando-datasets/fashion_mnist",
        GREY,
        (0.2860,),
        (0.3530,),
    ),
    "cifar10": Dataset(
        "60,000 32x32 colour photographs of 10 classes",
        "uoft-cs/cifar10",
        Columns("img", "label", ""),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
    ),
    "cifar100": Dataset(
        "60,000 32x32 colour photographs of 100 classes",
        "uoft-cs/cifar100",
        Columns("img", "fine_label", ""),
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
    ),
    "femnist": Dataset(
        "28x28 characters of 62 classes by writer",
        "flwrlabs/femnist",
        Columns("image", "character", "writer_id"),
        (0.1307,),
        (0.3081,),
    ),
    "custom": Dataset(
        "your own images, at data.path", "", GREY, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
    ),
}


def load_images(
    name: str,
    *,
    path: str,
    image_column: str,
    label_column: str,
    client_column: str,
    cache: Path,
) -> ImageSet:
    """Return data set ``name``, read from ``path`` or, if that is empty, from the hub.

    Empty column names stand for the data set's own. What is decoded is kept under
    ``cache``; files of the same contents are decoded once.
    """
    if name not in DATASETS:
        raise ValueError(f"data.name = {name!r}; use one of {', '.join(DATASETS)}")
    row = DATASETS[name]
    if name == "digits" and not path:
        return _load_digits(row, cache)
    if not path and not row.hub:
        raise ValueError(f"data.name = {name!r} needs data.path")
    columns = Columns(
        image_column or row.columns.image,
        label_column or row.columns.label,
        client_column or row.columns.client,
    )
    folder = Path(path).expanduser() if path else _download(row.hub, cache)
    sources = find_sources(folder)
    if client_column and (sources[0].label or sources[0].file.suffix == ".npz"):
        raise ValueError(
            f"data.client-column = {client_column!r} needs parquet files; "
            f"{folder} has no columns"
        )
    classes = class_folders(folder) if sources[0].label else ()
    key = _key(name, row, columns, content_hash(sources, classes))
    if not _is_whole(cache / key):
        _store(cache / key, decode(sources, columns, classes), row)
    return open_cached(cache, key)


def open_cached(cache: Path, key: str) -> ImageSet:
    """Return a data set that ``load_images`` has decoded before; never decodes."""
    folder = cache / key
    if not _is_whole(folder):
        raise ValueError(
            f"no decoded data set {key} in {cache}; load it there first (it is decoded "
            "when a run starts)"
        )
    about = json.loads((folder / ABOUT).read_text())
    owners = folder / "owners.npy"
    return ImageSet(
        images=np.load(folder / "images.npy", mmap_mode="r"),
        labels=np.load(folder / "labels.npy", mmap_mode="r"),
        owners=np.load(owners, mmap_mode="r")
        if owners.name in about["files"]
        else None,
        official_test=np.load(folder / "official_test.npy", mmap_mode="r"),
        classes=about["classes"],
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
        key=key,
        names=tuple(about["names"]),
    )


def _load_digits(row: Dataset, cache: Path) -> ImageSet:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    contents = hashlib.blake2b(images.tobytes() + labels.tobytes(), digest_size=16)
    key = _key("digits", row, row.columns, contents.hexdigest())
    if not _is_whole(cache / key):
        nobody = np.zeros(len(labels), np.bool_)
        names = tuple(map(str, bunch.target_names))
        _store(cache / key, Decoded(images, labels, None, nobody, names), row)
    return open_cached(cache, key)


def _key(name: str, row: Dataset, columns: Columns, contents: str) -> str:
    # The constants are kept with the images: other constants, another entry.
    facts = [READER, name, row.mean, row.std, vars(columns), contents]
    text = json.dumps(facts, sort_keys=True)
    return f"{name}-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


def _download(hub: str, cache: Path) -> Path:
    """Fetch a data set of the hub into parquet files, once, and return their folder."""
    folder = cache / "hub" / hub.replace("/", "--")
    if (folder / "complete").exists():
        return folder
    try:
        from datasets import load_dataset

        parts = load_dataset(hub)
        folder.mkdir(parents=True, exist_ok=True)
        for split, part in parts.items():
            with tempfile.TemporaryDirectory(dir=folder) as own:
                part.to_parquet(Path(own) / "part")
                os.replace(Path(own) / "part", folder / f"{split}.parquet")
    except Exception as error:
        raise ValueError(
            f"the data set {hub} could not be fetched from the hub "
            f"({type(error).__name__}: {error}); with a copy at hand, set data.path"
        ) from error
    (folder / "complete").touch()
    return folder


def _store(folder: Path, decoded: Decoded, row: Dataset) -> None:
    """Write each file under a name of its own, then move it into place.

    The description comes last and counts as the commit. Processes that build the same
    entry at once write the same bytes over each other.
    """
    channels = decoded.images.shape[1]
    arrays: dict[str, NDArray[np.generic]] = {
        "images.npy": decoded.images,
        "labels.npy": decoded.labels,
        "official_test.npy": decoded.official_test,
    }
    if decoded.owners is not None:
        arrays["owners.npy"] = decoded.owners
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            for name, array in arrays.items():
                np.save(Path(own) / name, array)
            about = {
                "classes": len(decoded.names),
                "names": decoded.names,
                "mean": _for_channels(row.mean, channels),
                "std": _for_channels(row.std, channels),
                "shape": decoded.images.shape,
                "files": {name: (Path(own) / name).stat().st_size for name in arrays},
            }
            (Path(own) / ABOUT).write_text(json.dumps(about))
            for name in [*arrays, ABOUT]:
                os.replace(Path(own) / name, folder / name)
    except OSError as error:
        raise ValueError(
            f"cannot keep the decoded data set in {folder}: {error}"
        ) from error


def _for_channels(constants: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Fit normalisation constants to grey copies of colour sets and the reverse."""
    if len(constants) == channels:
        return constants
    return (sum(constants) / len(constants),) * channels


def _is_whole(folder: Path) -> bool:
    try:
        about = json.loads((folder / ABOUT).read_text())
        sizes = {name: (folder / name).stat().st_size for name in about["files"]}
        images = np.load(folder / "images.npy", mmap_mode="r")
        shape, length = list(images.shape), len(np.load(folder / "labels.npy"))
        return bool(
            sizes == about["files"]
            and shape == about["shape"]
            and length == shape[0]
            and images.dtype == np.uint8
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False
