"""JSON records into Arrow batches of a table's schema. Nothing is guessed, rounded or dropped silently.

- A record is one JSON object (RFC 8259, UTF-8) with at most whitespace around it. A record without a value,
  anything else than an object, or more than 64 objects and arrays inside each other: bad. So is, anywhere in
  the record, half a surrogate pair written as an escape.
- Fields are found by name, case and all. Fields that the schema does not have are left out, but have to be
  well-formed. A field of the schema, or a key of a map, that stands twice in its object: bad.
- Missing or null: null if the column is optional, else bad.
- boolean: `true`, `false`. int, long: a number without fraction and exponent, in range.
- float, double: a number, to the nearest one there is (a float by way of the nearest double); bad if that is
  infinite. `NaN` and `Infinity` are not JSON.
- decimal(p, s): a number, or a string of one, that is exactly a decimal(p, s).
- string: a string. binary, fixed[n]: base64 in a string (standard alphabet, padded), fixed of that length.
- uuid: its 36 characters in a string. date: `"2024-02-29"`.
- time: `"HH:MM"`, `"HH:MM:SS"`, up to 9 decimals of which those below a microsecond are zeros.
- timestamp, timestamptz with `timestamps: iso`: date, `T` or a space, time, and for timestamptz alone `Z` or
  an offset (`+01:00`, `+0100`, `+01`). With `s`, `ms` or `us`: a number that is exactly some microseconds.
  Years 0001 to 9999, no leap seconds.
- list: an array. struct: an object. map: an object; its keys are strings, other key types are refused.

That is under the default contract. Others, for `columns` (a field that no column has; maps have no such):

- `discard_row`, `freeze`: the record is bad, also if the field is null.
- `evolve`: the field is to become a column, by the rules of `infer` and within the bounds of `drift`.

For `types` (a value that does not fit):

- `discard_value`: null; of a required column, the innermost optional value around it is; where there is none
  the record is bad. A value that is missing, or null where one is required, is bad all the same.
- `evolve`: int becomes long, float double and decimal(p, s) a longer decimal with the same s where that is
  enough; else the record is bad.

Only records that are good but for what is to change take part in changing the schema.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import MapType, Schema, StructType, Type, show_type
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.columns import fields_of
from frazil.stream.decode.decoded import Decoded
from frazil.stream.decode.json_reference import ReferenceReader
from frazil.stream.source import RawBatch


class _Reader(Protocol):
    def read(self, values: pa.BinaryArray) -> Decoded: ...


class JsonDecoder:
    """Decodes batches of records; cheap to build, and pickled as its arguments."""

    def __init__(
        self,
        schema: Schema,
        format: JsonFormat,  # noqa: A002 - the settings' own word
        contract: Contract = Contract(),  # noqa: B008 - frozen
        reserved: tuple[str, ...] = (),
    ) -> None:
        """`reserved`: columns of the table that are not of records, which no new field may be called."""
        _check(StructType(schema.fields), "")
        self._arguments = (schema, format, contract, reserved)
        self._reader = _reader(*self._arguments)

    def decode(self, raw: RawBatch) -> Decoded:
        if raw.values.type != pa.binary():
            raise TypeError(f"records come as an array of binary, not of {raw.values.type}")
        return self._reader.read(raw.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonDecoder, self._arguments


def _reader(schema: Schema, settings: JsonFormat, contract: Contract, reserved: tuple[str, ...]) -> _Reader:
    """The native one where it was built; `FRAZIL_NATIVE=0` does without."""
    if os.environ.get("FRAZIL_NATIVE") != "0":
        try:
            from frazil.stream.decode.json_native import NativeReader
        except ImportError:
            pass
        else:
            return NativeReader(schema, settings, contract, reserved)
    return ReferenceReader(schema, settings, contract, reserved)


def _check(kind: Type, path: str) -> None:
    if isinstance(kind, MapType) and kind.key != "string":
        raise InvalidConfig(
            f"column '{path}': {show_type(kind)} cannot be read from JSON, where keys are strings; "
            f"make it map<string, {show_type(kind.value)}>"
        )
    for field in fields_of(kind):
        _check(field.type, f"{path}.{field.name}" if path else field.name)
