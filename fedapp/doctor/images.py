"""Can the data set be read, and how large is it?"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedapp.config import DataSettings
from fedapp.data.decoded import Columns, Source, stack
from fedapp.data.images import DATASETS
from fedapp.data.parquet import number_labels
from fedapp.data.readers import decode, find_sources
from fedapp.doctor.finding import Finding
from fedapp.models import ImageShape


@dataclass(frozen=True)
class Look:
    """What a look at a data set showed; ``test`` samples are of an official split."""

    samples: int
    test: int
    image: ImageShape
    classes: int


def look(data: DataSettings, cache: Path) -> Look | None:
    """Return what there is, or None for a data set that is yet to be fetched.

    Every file is opened; of parquet files the first image is decoded and no other.

    Raises
    ------
    ValueError
        If something cannot be read; the message says what and why.
    """
    row = DATASETS[data.name]
    if data.name == "digits":
        return Look(1797, 0, ImageShape(1, 8, 8), 10)
    folder = cache / "hub" / row.hub.replace("/", "--")
    if data.path:
        folder = Path(data.path).expanduser()
    elif not (folder / "complete").exists():
        return None
    columns = Columns(
        data.image_column or row.columns.image,
        data.label_column or row.columns.label,
        data.client_column or row.columns.client,
    )
    sources = find_sources(folder)
    if sources[0].file.suffix == ".parquet":
        return _look_at_parquet(sources, columns)
    if sources[0].label is not None:
        return _look_at_folders(sources)
    decoded = decode(sources, columns)
    shape = ImageShape(*decoded.images.shape[1:])
    test = int(decoded.official_test.sum())
    return Look(len(decoded.labels), test, shape, len(decoded.names))


def _look_at_folders(sources: list[Source]) -> Look:
    for source in sources:
        try:
            with source.file.open("rb") as file:
                file.read(1)
        except OSError as error:
            raise ValueError(f"{source.file} cannot be read: {error}") from error
    image = _shape(sources[0].file.read_bytes(), str(sources[0].file))
    test = sum(source.test for source in sources)
    return Look(len(sources), test, image, len({s.label for s in sources}))


def _look_at_parquet(sources: list[Source], columns: Columns) -> Look:
    rows = {source: _rows(source.file, columns) for source in sources}
    where = f"column {columns.label!r} of {sources[0].file}: "
    schema = pq.read_schema(sources[0].file)
    labels = [v for s in sources for v in _labels(s.file, columns.label)]
    _, names = number_labels(labels, where, schema, columns.label)
    first = _first_image(sources[0].file, columns.image)
    test = sum(count for source, count in rows.items() if source.test)
    image = _shape(first, f"{sources[0].file}, row 0")
    return Look(sum(rows.values()), test, image, len(names))


def _rows(file: Path, columns: Columns) -> int:
    try:
        # The description stands at the end: a truncated file has none.
        about = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{file} cannot be read as parquet: {error}") from error
    there = about.schema.to_arrow_schema().names
    settings = ("data.image-column", "data.label-column", "data.client-column")
    names = (columns.image, columns.label, columns.client)
    for name, setting in zip(names, settings, strict=True):
        if name and name not in there:
            raise ValueError(
                f"{file} has no column {name!r}; it has {', '.join(there)}: set "
                f"{setting} to one of these"
            )
    return int(about.num_rows)


def _labels(file: Path, column: str) -> list[int | str]:
    try:
        return list(pq.read_table(file, columns=[column])[column].to_pylist())
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{file} cannot be read as parquet: {error}") from error


def _first_image(file: Path, column: str) -> bytes | None:
    try:
        batches = pq.ParquetFile(file).iter_batches(batch_size=1, columns=[column])
        value = next(batches).column(0)[0].as_py()
    except StopIteration:
        raise ValueError(f"{file} has no rows") from None
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{file} cannot be read as parquet: {error}") from error
    found: bytes | None = value.get("bytes") if isinstance(value, dict) else value
    return found


def _shape(data: bytes | None, where: str) -> ImageShape:
    return ImageShape(*stack([(data, where)], 1).shape[1:])


def check_data(data: DataSettings, found: Look | ValueError | None) -> Finding:
    """Report what ``look`` found or raised."""
    topic = "data.path" if data.path else "data"
    if found is None:
        return Finding(
            "warning",
            topic,
            f"{data.name} is not here yet",
            "the first run fetches it from the Hugging Face hub; with a copy at hand, "
            "set data.path",
        )
    if isinstance(found, ValueError):
        return Finding("problem", topic, str(found))
    shape = "x".join(map(str, found.image))
    fact = f"{data.name}: {found.samples:,} images of {shape}, {found.classes} classes"
    if data.official_split and not found.test:
        return Finding(
            "problem",
            topic,
            f"{fact}, but no official test split",
            "set data.official-split=false, or add the test file",
        )
    return Finding("ok", topic, fact)
