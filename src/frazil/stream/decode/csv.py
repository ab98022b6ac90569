"""CSV records into Arrow batches of a table's schema. Nothing is guessed, rounded or dropped silently.

- A record is one line (RFC 4180, UTF-8), with or without the end of the line. A field may stand in quotes, in
  which delimiters and line ends are part of it and a quote is written twice. A quote inside a field without
  quotes, something behind the closing quote, a line end outside of quotes, another number of fields than
  expected: bad. So is an empty line.
- Fields are the columns in the order of the schema; or, where the file has a header, those of its names, case
  and all. Columns that the header does not have are missing; if it has none, all records are bad. What the
  schema does not have is left out, asked for as a string (`evolve`), or makes the records bad that have a
  value there.
- Nothing, or the text of `null`, without quotes: null if the column is optional, else bad.
- Values are written as in JSON (see `frazil.stream.decode.json`), those that are strings there without JSON's
  quotes and escapes: `true`, `-1`, `1.5e3`, `2024-02-29`, base64. Spaces are part of a value.
- No lists, maps and structs.
- With `types: evolve` a number that only fits a wider type asks for it; with `discard_value` a value that
  does not fit is a null.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema, SchemaChange, show_type
from frazil.stream.config.model import Contract, CsvFormat
from frazil.stream.decode.csv_reference import CsvReference, Layout
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.source import RawBatch


class _Rows(Protocol):
    def rows(self, values: pa.BinaryArray, layout: Layout) -> tuple[pa.RecordBatch, list[int]]: ...


class CsvDecoder:
    """By the native decoder where it was built (`FRAZIL_NATIVE=0` does without).

    A bad record is put into words by the reference.
    """

    def __init__(
        self,
        schema: Schema,
        format: CsvFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: tuple[str, ...] = (),
    ) -> None:
        """`reserved`: columns of the table that are not of records, which no new field may be called."""
        _check(schema, format)
        self._arguments = (schema, format, contract, reserved)
        self._reference = CsvReference(schema, format, contract, reserved)
        self._rows = self._native() or self._reference
        self._layouts = dict[bytes | None, Layout]()

    def decode(self, raw: RawBatch) -> Decoded:
        if raw.values.type != pa.binary():
            raise TypeError(f"records come as an array of binary, not of {raw.values.type}")
        layout = self._layouts.get(raw.header)
        if layout is None:
            layout = self._layouts[raw.header] = self._reference.layout(raw.header)
        reader = self._rows if layout.problem is None else self._reference
        rows, bad = reader.rows(raw.values, layout)
        problems = list[Undecodable]()
        changes = dict.fromkeys(layout.changes if len(raw.values) else ())
        for row in bad:
            problem, change = self._explain(row, raw.values[row].as_py(), layout)
            if change is None:
                problems.append(problem)
            else:
                changes[change] = None
        return Decoded(rows, tuple(problems), tuple(changes))

    def _explain(
        self, row: int, value: bytes | None, layout: Layout
    ) -> tuple[Undecodable, SchemaChange | None]:
        found = self._reference.explain(row, value, layout)
        if found is None:
            raise RuntimeError(
                f"the two CSV decoders do not agree on record {row} of the batch: set FRAZIL_NATIVE=0 to go "
                "on without the native one, and please report the record"
            )
        return found

    def _native(self) -> _Rows | None:
        if os.environ.get("FRAZIL_NATIVE") == "0":
            return None
        try:
            from frazil.stream.decode.csv_native import NativeRows
        except ImportError:
            return None
        return NativeRows(*self._arguments[:3])

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvDecoder, self._arguments


def _check(schema: Schema, settings: CsvFormat) -> None:
    for field in schema:
        if not isinstance(field.type, str):
            raise InvalidConfig(
                f"column '{field.name}': a field of CSV is one value, not {show_type(field.type)}; make it a "
                "string, or choose another format"
            )
    marks = {"delimiter": settings.delimiter, "quote": settings.quote}
    for name, mark in marks.items():
        if not (len(mark) == 1 and mark.isascii() and mark not in "\r\n") and not (
            name == "quote" and not mark
        ):
            raise InvalidConfig(
                f"`{name}` of CSV is one ASCII character (`quote` may be empty), not {mark!r}"
            )
    if settings.delimiter == settings.quote:
        raise InvalidConfig("`delimiter` and `quote` of CSV are two different characters")
