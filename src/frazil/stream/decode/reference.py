"""The rules of `frazil.stream.decode.json` in plain Python: the fallback, the judge of the native decoder
in tests, and the one that puts every refusal into words."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type, arrow_type, show_type
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode import assemble, text
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable

#: Objects and arrays that may be open at once, the record itself among them.
MAX_DEPTH = 64
#: Decimal places from the unit of a timestamp down to microseconds.
UNIT_SCALE = {"s": 6, "ms": 3, "us": 0}
_SHOWN = 100
_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_Convert: TypeAlias = Callable[[Any], Any]


class _Bad(Exception):
    """What is wrong with a value; the path to it is put together on the way out."""

    def __init__(self, reason: str, fault: Fault = Fault.BROKEN) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        self.path = ""

    def within(self, step: str) -> _Bad:
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{joint}{self.path}"
        return self

    def of(self, index: int) -> Undecodable:
        return Undecodable(index, self.reason, self.path or None, self.fault)


class ReferenceReader:
    """Decodes records one by one."""

    def __init__(self, schema: Schema, format: JsonFormat, contract: Contract) -> None:  # noqa: A002
        self._schema = schema.to_arrow()
        self._convert = _struct(StructType(schema.fields), format)

    def read(self, values: pa.BinaryArray) -> Decoded:
        rows: list[Any] = []
        bad: list[Undecodable] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append(self.record(value))
            except _Bad as problem:
                bad.append(problem.of(index))
        columns = [
            assemble.retyped(pa.array([row.get(field.name) for row in rows], field.type), field.type)
            for field in self._schema
        ]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=self._schema), tuple(bad))

    def explain(self, index: int, value: bytes | None) -> Undecodable | None:
        """Why a record is bad; None if it is good."""
        try:
            self.record(value)
        except _Bad as problem:
            return problem.of(index)
        return None

    def record(self, value: bytes | None) -> Any:
        if not value:
            raise _Bad("a record without a value; expected a JSON object", Fault.EMPTY)
        document = _document(value)
        if not isinstance(document, tuple):
            raise _mismatch("a JSON object", document, Fault.BROKEN)
        return self._convert(document)


def _document(value: bytes) -> Any:
    try:
        whole = value.decode()
    except UnicodeDecodeError as problem:
        raise _Bad(f"not UTF-8 text: byte {problem.start + 1} of {len(value)} is wrong") from None
    try:
        document = _JSON.decode(whole)
    except json.JSONDecodeError as problem:
        what = problem.msg.split(" (")[0].replace("Expecting", "expected").replace("Extra", "extra")
        raise _Bad(
            f"not JSON: {what} at character {problem.pos + 1} of {_cut(whole)}; expected one JSON object"
        ) from None
    except RecursionError:
        raise _Bad(_TOO_DEEP) from None
    if whole.count("[") + whole.count("{") > MAX_DEPTH:
        _check_depth(document, 1)
    if "\\u" in whole:
        _check_text(document)
    return document


_TOO_DEEP = f"objects and arrays are nested more than {MAX_DEPTH} deep"


def _check_depth(value: Any, depth: int) -> None:
    if not isinstance(value, list | tuple):
        return
    if depth > MAX_DEPTH:
        raise _Bad(_TOO_DEEP)
    for item in value:
        _check_depth(item[1] if isinstance(value, tuple) else item, depth + 1)


def _check_text(value: Any) -> None:
    """Half a surrogate pair, written as an escape, is no character."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= mark <= "\udfff" for mark in value):
            raise _Bad("an escape \\ud800 to \\udfff without its other half; expected surrogates in pairs")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)


def _constant(word: str) -> NoReturn:
    raise _Bad(f"{word} is no JSON number; expected digits")


#: Objects become tuples of pairs, arrays lists, and numbers bytes: their digits as they stood.
_JSON = json.JSONDecoder(
    object_pairs_hook=tuple,
    parse_int=str.encode,
    parse_float=str.encode,
    parse_constant=_constant,
    strict=True,
)


def _cut(whole: str) -> str:
    shown = json.dumps(whole, ensure_ascii=False)[1:-1] if not whole.isprintable() else whole
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return _cut(value.decode())
    if isinstance(value, tuple):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return f'"{_cut(value)}"' if isinstance(value, str) else json.dumps(value)


def _mismatch(expected: str, value: Any, fault: Fault = Fault.TYPE) -> _Bad:
    return _Bad(f"found {_show(value)}, expected {expected}", fault)


def _struct(kind: StructType, settings: JsonFormat) -> _Convert:
    converts = {field.name: _convert(field.type, field.required, settings) for field in kind.fields}
    required = [field.name for field in kind.fields if field.required]

    def convert(value: Any) -> Any:
        if not isinstance(value, tuple):
            raise _mismatch("a JSON object", value)
        row: dict[str, Any] = {}
        name = ""
        try:
            for name, item in value:
                if name in converts:
                    if name in row:
                        raise _Bad("stands twice in its object; expected once")
                    row[name] = converts[name](item)
        except _Bad as problem:
            raise problem.within(name) from None
        for name in required:
            if name not in row:
                raise _Bad("is missing, and its column is required", Fault.MISSING).within(name)
        return row

    return convert


def _list(kind: ListType, settings: JsonFormat) -> _Convert:
    element = _convert(kind.element, kind.element_required, settings)

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise _mismatch(f"an array ({show_type(kind)})", value)
        return [_inside(element, item, f"[{index}]") for index, item in enumerate(value)]

    return convert


def _map(kind: MapType, settings: JsonFormat) -> _Convert:
    entry = _convert(kind.value, kind.value_required, settings)

    def convert(value: Any) -> Any:
        if not isinstance(value, tuple):
            raise _mismatch(f"an object ({show_type(kind)})", value)
        found: dict[str, Any] = {}
        for key, item in value:
            if key in found:
                raise _Bad("stands twice in its map; expected once").within(f"[{_show(key)}]")
            found[key] = _inside(entry, item, f"[{_show(key)}]")
        return list(found.items())

    return convert


def _inside(convert: _Convert, value: Any, step: str) -> Any:
    try:
        return convert(value)
    except _Bad as problem:
        raise problem.within(step) from None


def _convert(kind: Type, required: bool, settings: JsonFormat) -> _Convert:
    read = _present(kind, settings)

    def convert(value: Any) -> Any:
        if value is None:
            if required:
                expected = _expected(kind, settings)
                raise _Bad(f"is null, and its column is required; expected {expected}", Fault.MISSING)
            return None
        found = read(value)
        if found is None:
            raise _mismatch(_expected(kind, settings), value)
        return found

    return convert


def _present(kind: Type, settings: JsonFormat) -> _Convert:
    """What reads a value that is not null; None from it says that the value does not fit."""
    if isinstance(kind, StructType):
        return _struct(kind, settings)
    if isinstance(kind, ListType):
        return _list(kind, settings)
    if isinstance(kind, MapType):
        return _map(kind, settings)
    return _primitive(kind, settings)


def _primitive(kind: str, settings: JsonFormat) -> _Convert:
    if kind.startswith("decimal"):
        return _decimal(arrow_type(kind))
    if kind.startswith("fixed"):
        return _fixed(arrow_type(kind).byte_width)
    if kind in _RANGES:
        return _integer(*_RANGES[kind])
    if kind in ("timestamp", "timestamptz"):
        return _timestamp(kind, settings)
    return {
        "boolean": lambda value: value if isinstance(value, bool) else None,
        "float": _float,
        "double": _double,
        "string": lambda value: value if isinstance(value, str) else None,
        "date": _of_text(text.days),
        "time": _of_text(text.micros_of_day),
        "uuid": _of_text(text.uuid_bytes),
        "binary": _of_text(text.base64_bytes),
    }[kind]


def _of_text(read: Callable[[str], Any]) -> _Convert:
    return lambda value: read(value) if isinstance(value, str) else None


def _integer(least: int, most: int) -> _Convert:
    def convert(value: Any) -> int | None:
        if not isinstance(value, bytes) or len(value) > 20 or not value.removeprefix(b"-").isdigit():
            return None
        return found if least <= (found := int(value)) <= most else None

    return convert


def _double(value: Any) -> float | None:
    if not isinstance(value, bytes) or math.isinf(found := float(value)):
        return None
    return found


def _float(value: Any) -> float | None:
    """The nearest float of the nearest double, as every C program has it."""
    found = _double(value)
    try:
        return None if found is None else struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        return None


def _decimal(kind: pa.DataType) -> _Convert:
    from decimal import Decimal

    def convert(value: Any) -> Decimal | None:
        written = value.decode() if isinstance(value, bytes) else value
        found = text.scaled(written, kind.scale, kind.precision) if isinstance(written, str) else None
        if found is None:
            return None
        return Decimal((int(found < 0), tuple(map(int, str(abs(found)))), -kind.scale))

    return convert


def _fixed(length: int) -> _Convert:
    def convert(value: Any) -> bytes | None:
        found = text.base64_bytes(value) if isinstance(value, str) else None
        return found if found is not None and len(found) == length else None

    return convert


def _timestamp(kind: str, settings: JsonFormat) -> _Convert:
    if settings.timestamps == "iso":
        return _of_text(lambda value: text.micros(value, zoned=kind == "timestamptz"))
    scale = UNIT_SCALE[settings.timestamps]

    def convert(value: Any) -> int | None:
        return text.in_range(text.scaled(value.decode(), scale, 19)) if isinstance(value, bytes) else None

    return convert


def _expected(kind: Type, settings: JsonFormat) -> str:
    if not isinstance(kind, str):
        return f"a value ({show_type(kind)})"
    if kind in _RANGES:
        least, most = _RANGES[kind]
        return f"an integer from {least} to {most} ({kind})"
    if kind in ("timestamp", "timestamptz"):
        return _expected_timestamp(kind, settings)
    if kind.startswith("decimal"):
        return f"a number that is exactly a {kind}"
    if kind.startswith("fixed"):
        return f"base64 text of {arrow_type(kind).byte_width} bytes ({kind})"
    return _EXPECTED[kind]


_EXPECTED = {
    "boolean": "true or false",
    "float": "a number within the range of a float",
    "double": "a number within the range of a double",
    "string": "a string",
    "date": 'a date such as "2024-02-29"',
    "time": 'a time such as "23:59:59.999999"',
    "uuid": "a uuid of 36 characters",
    "binary": "base64 text, padded",
}


def _expected_timestamp(kind: str, settings: JsonFormat) -> str:
    """Names the setting: a wrong unit is the likely mistake."""
    if settings.timestamps == "iso":
        example = "2024-02-29T12:00:00" + (
            "Z, with Z or an offset" if kind == "timestamptz" else ", without an offset"
        )
        return (
            f"ISO 8601 text such as {example}, to the microsecond ({kind}); "
            "for numbers set `format: {json: {timestamps: ms}}` (or s, us)"
        )
    unit = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[settings.timestamps]
    return (
        f"a number of {unit} since 1970 in the years 1 to 9999, exact to the microsecond ({kind}), by "
        f"`format: {{json: {{timestamps: {settings.timestamps}}}}}`; for ISO 8601 text set `timestamps: iso`"
    )


def fields_of(kind: Type) -> Iterable[Field]:
    """The members of a nested type as fields, as `Schema.to_arrow` names them."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (Field("element", kind.element, kind.element_required),)
    if isinstance(kind, MapType):
        return (Field("key", kind.key, True), Field("value", kind.value, kind.value_required))
    return ()
