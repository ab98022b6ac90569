"""Arrow's types as Iceberg's, and which types a column may become."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from frazil.core.schema import Field, ListType, MapType, StructType, Type

_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_MAX_PRECISION = 38


def iceberg_type(kind: pa.DataType) -> Type | None:
    """The type that holds every value of it; None where Iceberg has none."""
    kind = plain_type(kind)
    if pa.types.is_struct(kind):
        fields = [(kind.field(at).name, iceberg_type(kind.field(at).type)) for at in range(kind.num_fields)]
        known = tuple(Field(name, found) for name, found in fields if found is not None)
        return StructType(known) if known else None
    if pa.types.is_map(kind):
        key, value = iceberg_type(kind.key_type), iceberg_type(kind.item_type)
        return None if key is None or value is None else MapType(key, value)
    if is_list(kind):
        element = iceberg_type(kind.value_type)
        return None if element is None else ListType(element)
    return next((name(kind) for test, name in _WORDS if test(kind)), None)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Without what only says how values are stored."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def is_list(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def widened(column: Type, needed: Type) -> Type | None:
    """What a column has to become to hold such values too, as far as Iceberg lets it; None: it cannot."""
    if (column, needed) in (("int", "long"), ("float", "double")):
        return needed
    if isinstance(column, str) and isinstance(needed, str):
        old, new = _DECIMAL.fullmatch(column), _DECIMAL.fullmatch(needed)
        if old and new and old[2] == new[2] and int(new[1]) > int(old[1]):
            return needed
    return None


def _decimal(kind: pa.DataType) -> str | None:
    fits = kind.precision <= _MAX_PRECISION and 0 <= kind.scale <= kind.precision
    return f"decimal({kind.precision}, {kind.scale})" if fits else None


def _small(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (pa.types.is_int8, pa.types.is_int16, pa.types.is_uint8, pa.types.is_uint16)
    )


_WORDS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str | None]]] = [
    (pa.types.is_boolean, lambda _: "boolean"),
    (_small, lambda _: "int"),
    (pa.types.is_int32, lambda _: "int"),
    (pa.types.is_int64, lambda _: "long"),
    (pa.types.is_uint32, lambda _: "long"),
    (pa.types.is_uint64, lambda _: "decimal(20, 0)"),
    (pa.types.is_float16, lambda _: "float"),
    (pa.types.is_float32, lambda _: "float"),
    (pa.types.is_float64, lambda _: "double"),
    (pa.types.is_decimal, _decimal),
    (is_text, lambda _: "string"),
    (is_bytes, lambda _: "binary"),
    (pa.types.is_fixed_size_binary, lambda kind: f"fixed[{kind.byte_width}]"),
    (pa.types.is_date, lambda _: "date"),
    (pa.types.is_time, lambda _: "time"),
    (pa.types.is_timestamp, lambda kind: "timestamptz" if kind.tz else "timestamp"),
]
