"""Decode image data sets in the hub's parquet layout."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedapp.data.decoded import Columns, Decoded, Source, number, stack


def decode_parquet(sources: list[Source], columns: Columns) -> Decoded:
    """Read the files one after the other; the first says how many classes there are."""
    names = [columns.image, columns.label, *filter(None, [columns.client])]
    tables = [_table(source.file, names) for source in sources]
    flags = np.repeat([s.test for s in sources], [len(table) for table in tables])
    if len(flags) == 0:
        raise ValueError(f"{sources[0].file} has no rows")

    def images() -> Iterator[tuple[bytes | None, str]]:
        for source, table in zip(sources, tables, strict=True):
            column = table[columns.image]
            if pa.types.is_struct(column.type):
                column = pa.chunked_array(
                    [chunk.field("bytes") for chunk in column.chunks]
                )
            for row, value in enumerate(column):
                yield value.as_py(), f"{source.file}, row {row}"

    labels, classes = _number_tables(sources, tables, columns)
    owners = None
    if columns.client:
        values = [v for table in tables for v in table[columns.client].to_pylist()]
        codes = {v: code for code, v in enumerate(sorted({*values} - {None}, key=str))}
        owners = np.array([codes.get(v, -1) for v in values], dtype=np.int64)
    return Decoded(stack(images(), len(flags)), labels, owners, flags, classes)


def _table(file: Path, names: list[str]) -> pa.Table:
    try:
        schema = pq.read_schema(file)
        there = schema.names
        settings = ("data.image-column", "data.label-column", "data.client-column")
        for name, setting in zip(names, settings, strict=False):
            if name not in there:
                raise ValueError(
                    f"{file} has no column {name!r}; it has {', '.join(there)}: "
                    f"set {setting} to one of these"
                )
        kind = schema.field(names[0]).type
        if not _holds_images(kind):
            raise ValueError(
                f"{file}: column {names[0]!r} holds {kind}, not encoded images; set "
                "data.image-column to the one that does"
            )
        return pq.read_table(file, columns=names)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{file} cannot be read as parquet: {error}") from error


def _holds_images(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and _holds_images(kind.field(at).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _number_tables(
    sources: list[Source], tables: list[pa.Table], columns: Columns
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    values: list[int | str] = []
    for source, table in zip(sources, tables, strict=True):
        column = table[columns.label].to_pylist()
        for row, value in enumerate(column):
            if not isinstance(value, int | str) or isinstance(value, bool):
                raise ValueError(
                    f"{source.file}, row {row}: label {value!r} in column "
                    f"{columns.label!r} is neither integer nor text; set "
                    "data.label-column to the one that holds classes"
                )
        values += column
    where = f"column {columns.label!r} of {sources[0].file}: "
    return number_labels(values, where, tables[0].schema, columns.label)


def number_labels(
    values: Sequence[int | str], where: str, schema: pa.Schema, label: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as integers and class names, as far as the file names them."""
    known = _class_names(schema, label)
    return number(values, where, () if values and isinstance(values[0], str) else known)


def _class_names(schema: pa.Schema, label: str) -> tuple[str, ...]:
    """Return the class names in the Hugging Face description of a column, if any."""
    try:
        about = json.loads((schema.metadata or {})[b"huggingface"])
        return tuple(map(str, about["info"]["features"][label]["names"]))
    except (KeyError, TypeError, ValueError):
        return ()
