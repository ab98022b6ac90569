"""What Iceberg wants to know about a data file, here from the footer that Parquet's writer has in memory."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.core.schema import ListType, MapType, Schema, StructType, Type
from frazil.lake.files import Metrics

#: Iceberg's defaults: `truncate(16)` for the first 100 columns.
TRUNCATE_LENGTH = 16
METRICS_COLUMNS = 100

#: Columns without bounds, in the footer too. Iceberg in Java compares `uuid` by signed halves (apache/iceberg
#: issue 14216) and others by unsigned bytes, so whatever the bounds, one of them would lose rows.
UNORDERED = frozenset({"uuid"})

_PACKED = {
    "int": "<i",
    "date": "<i",
    "long": "<q",
    "time": "<q",
    "timestamp": "<q",
    "timestamptz": "<q",
    "float": "<f",
    "double": "<d",
}
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MAX_BYTE = 0xFF


@dataclass(frozen=True)
class Leaf:
    """A column of the Parquet file."""

    id: int
    kind: str
    #: Names from the top.
    path: tuple[str, ...]
    #: The same in the words of Parquet, which has groups between.
    parquet_path: str
    #: Inside a list or a map: of such Iceberg tells the size only.
    repeated: bool = False
    #: Among the first columns, as Iceberg counts them.
    measured: bool = True

    @property
    def may_be_nan(self) -> bool:
        return self.kind in ("float", "double") and not self.repeated


def leaves(schema: Schema) -> tuple[Leaf, ...]:
    """The columns in the order in which Parquet has them."""
    top = StructType(schema.fields)
    first = set(itertools.islice(_by_depth(top), METRICS_COLUMNS))
    found = _leaves(top, 0, _Place())
    return tuple(leaf if leaf.id in first else replace(leaf, measured=False) for leaf in found)


def footer_metrics(
    footer: pq.FileMetaData, columns: Sequence[Leaf], nans: Sequence[Mapping[int, int]]
) -> tuple[Metrics, tuple[int, ...]]:
    """Metrics and split offsets. `nans` counts, for each row group, the NaN values by field id."""
    metrics = Metrics()
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for index, leaf in enumerate(columns):
        if not leaf.measured:
            continue
        chunks = [group.column(index) for group in groups]
        metrics.column_sizes[leaf.id] = sum(chunk.total_compressed_size for chunk in chunks)
        if not leaf.repeated:
            _add_column(metrics, leaf, chunks, [counts.get(leaf.id, 0) for counts in nans])
    return metrics, tuple(_start(group.column(0)) for group in groups)


def _add_column(metrics: Metrics, leaf: Leaf, chunks: Sequence[Any], nans: Sequence[int]) -> None:
    statistics = [chunk.statistics for chunk in chunks]
    if leaf.may_be_nan:
        metrics.nan_value_counts[leaf.id] = sum(nans)
    if any(known is None or not known.has_null_count for known in statistics):
        return
    metrics.value_counts[leaf.id] = sum(chunk.num_values for chunk in chunks)
    metrics.null_value_counts[leaf.id] = sum(known.null_count for known in statistics)
    lows, highs = [], []
    for chunk, known, nan in zip(chunks, statistics, nans, strict=True):
        if known.has_min_max:
            lows.append(known.min_raw)
            highs.append(known.max_raw)
        elif chunk.num_values > known.null_count + nan:
            # Values too long for the footer: a bound from the other row groups alone would hide rows.
            return
    if lows:
        add_bounds(metrics, leaf, lows, highs)


def add_bounds(metrics: Metrics, leaf: Leaf, lows: Iterable[Any], highs: Iterable[Any]) -> None:
    decode = int_of if leaf.kind.startswith("decimal") else _same
    metrics.lower_bounds[leaf.id] = lower_bound(leaf.kind, min(map(decode, lows)))
    upper = upper_bound(leaf.kind, max(map(decode, highs)))
    if upper is not None:
        metrics.upper_bounds[leaf.id] = upper


def column_of(rows: pa.Table, leaf: Leaf) -> pa.ChunkedArray:
    """The values of a column that is not inside a list or map; null where the struct around it is."""
    column = rows.column(leaf.path[0])
    return column if len(leaf.path) == 1 else pc.struct_field(column, list(leaf.path[1:]))


def count_nans(rows: pa.Table, leaf: Leaf) -> int:
    return pc.sum(pc.is_nan(column_of(rows, leaf))).as_py() or 0


def lower_bound(kind: str, value: Any) -> bytes:
    """At most `value`, in Iceberg's binary form and no longer than it should be."""
    if kind == "string":
        return truncate_text(value.decode()).encode()
    if kind == "binary":
        return bytes(value[:TRUNCATE_LENGTH])
    # Zero has two signs, and both are equal to it: the bounds must hold either.
    return single_value(kind, -0.0 if kind in ("float", "double") and value == 0 else value)


def upper_bound(kind: str, value: Any) -> bytes | None:
    """At least `value`; None if nothing short enough is."""
    if kind == "string":
        text = truncate_text_up(value.decode())
        return None if text is None else text.encode()
    if kind == "binary":
        return truncate_bytes_up(value)
    return single_value(kind, 0.0 if kind in ("float", "double") and value == 0 else value)


def single_value(kind: str, value: Any) -> bytes:
    """Iceberg's binary serialization of one value, given as Parquet holds it (decimals: the unscaled number).

    >>> single_value("long", 1).hex(), single_value("decimal(9, 2)", -129).hex()
    ('0100000000000000', 'ff7f')
    """
    if kind in _PACKED:
        return struct.pack(_PACKED[kind], value)
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind.startswith("decimal"):
        bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
        return int(value).to_bytes(bits // 8 + 1, "big", signed=True)
    return bytes(value)


def int_of(raw: int | bytes) -> int:
    """The unscaled number of a decimal, which Parquet holds as a number or as big-endian bytes."""
    return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)


def truncate_text(text: str) -> str:
    return text[:TRUNCATE_LENGTH]


def truncate_text_up(text: str) -> str | None:
    """The shortest text by code points that is not below any beginning with the same 16."""
    if len(text) <= TRUNCATE_LENGTH:
        return text
    for at in reversed(range(TRUNCATE_LENGTH)):
        following = ord(text[at]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _MAX_CODE_POINT:
            return text[:at] + chr(following)
    return None


def truncate_bytes_up(value: bytes) -> bytes | None:
    if len(value) <= TRUNCATE_LENGTH:
        return bytes(value)
    for at in reversed(range(TRUNCATE_LENGTH)):
        if value[at] < _MAX_BYTE:
            return value[:at] + bytes([value[at] + 1])
    return None


def _leaves(kind: Type, identifier: int, place: _Place) -> Iterator[Leaf]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _leaves(field.type, field.id, place.below(field.name))
    elif isinstance(kind, ListType):
        yield from _leaves(kind.element, kind.element_id, place.below("element", "list"))
    elif isinstance(kind, MapType):
        yield from _leaves(kind.key, kind.key_id, place.below("key", "key_value"))
        yield from _leaves(kind.value, kind.value_id, place.below("value", "key_value"))
    else:
        yield Leaf(identifier, kind, place.path, ".".join(place.steps), place.repeated)


def _by_depth(kind: Type) -> Iterator[int]:
    """Ids of columns in Iceberg's order for metrics: those of a struct before what is further inside."""
    inside: list[tuple[int, Type]] = []
    if isinstance(kind, StructType):
        inside = [(field.id, field.type) for field in kind.fields]
    elif isinstance(kind, ListType):
        inside = [(kind.element_id, kind.element)]
    elif isinstance(kind, MapType):
        inside = [(kind.key_id, kind.key), (kind.value_id, kind.value)]
    yield from (identifier for identifier, each in inside if isinstance(each, str))
    for _, each in inside:
        yield from _by_depth(each)


@dataclass(frozen=True)
class _Place:
    path: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    repeated: bool = False

    def below(self, name: str, group: str | None = None) -> _Place:
        steps = (name,) if group is None else (group, name)
        return _Place((*self.path, name), (*self.steps, *steps), self.repeated or group is not None)


def _start(chunk: Any) -> int:
    offset = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < offset:
        offset = chunk.dictionary_page_offset
    return int(offset)


def _same(value: Any) -> Any:
    return value
