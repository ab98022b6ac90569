"""The rules of `frazil.stream.decode.csv` in plain Python: the fallback, the judge of the native decoder in
tests, and the one that puts every refusal into words."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from frazil.core.schema import Field, Schema, SchemaChange
from frazil.stream.config.model import Contract, CsvFormat
from frazil.stream.decode.csv_values import reads, wider, words
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.problem import Problem

_SKIPPED, _UNKNOWN = -1, -2
_SHOWN = 100


@dataclass(frozen=True)
class Layout:
    """What the fields of a file's records are."""

    #: For each field the number of its column; -1: left out, -2: bad if it has a value.
    places: tuple[int, ...]
    names: tuple[str, ...]
    changes: tuple[SchemaChange, ...] = ()
    #: What is wrong with the header, and so with every record.
    problem: str | None = None


class _Value(NamedTuple):
    text: str
    quoted: bool


class _Bad(Exception):
    def __init__(self, reason: str, fault: Fault, field: Field | str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        self.name = field.name if isinstance(field, Field) else field
        self.change: SchemaChange | None = None


class CsvReference:
    """Decodes records one by one."""

    def __init__(
        self,
        schema: Schema,
        format: CsvFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: tuple[str, ...] = (),
    ) -> None:
        self._schema = schema
        self._reserved = reserved
        self._format = format
        self._contract = contract
        self._reads = [reads(field.type, format.timestamps) for field in schema]

    def layout(self, header: bytes | None) -> Layout:
        """By the names in a header, or in the order of the schema."""
        names = [field.name for field in self._schema]
        if header is None:
            return Layout(tuple(range(len(names))), tuple(names))
        try:
            found = [value.text for value in self._split(_line(header.removeprefix(codecs.BOM_UTF8)))]
        except _Bad as bad:
            return Layout((), (), problem=f"the header of its file is {bad.reason}")
        twice = next((name for name in found if name in names and found.count(name) > 1), None)
        if twice is not None:
            return Layout((), (), problem=f"the header of its file names '{twice}' twice")
        if names and self._contract.columns != "evolve" and not set(names).intersection(found):
            # Another delimiter, say: every record would be a row of nulls.
            shown = _cut(", ".join(found))
            return Layout((), (), problem=f"the header of its file names none of the columns: {shown}")
        columns = {name: place for place, name in enumerate(names)}
        other = _SKIPPED if self._contract.columns == "discard_value" else _UNKNOWN
        places = tuple(columns.get(name, other) for name in found)
        return Layout(places, tuple(found), self._changes(name for name in found if name not in columns))

    def _changes(self, news: Iterable[str]) -> tuple[SchemaChange, ...]:
        """What cannot be a column stays unknown, and makes records bad."""
        drift = Drift(self._schema, self._reserved)
        for name in news if self._contract.columns == "evolve" else ():
            with contextlib.suppress(Problem):
                drift.add([SchemaChange((name,), "string")])
        return drift.changes

    def rows(self, values: pa.BinaryArray, layout: Layout) -> tuple[pa.RecordBatch, list[int]]:
        """The good records, and which are bad."""
        good, bad = list[list[Any]](), list[int]()
        for row, value in enumerate(values.to_pylist()):
            try:
                good.append(self._record(value, layout))
            except _Bad:
                bad.append(row)
        schema = self._schema.to_arrow()
        columns = [pa.array([row[at] for row in good], field.type) for at, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema), bad

    def explain(
        self, row: int, value: bytes | None, layout: Layout
    ) -> tuple[Undecodable, SchemaChange | None] | None:
        """Why a record is bad, and the change that it needs; None if it is good."""
        try:
            self._record(value, layout)
        except _Bad as bad:
            return Undecodable(row, bad.reason, bad.name, bad.fault), bad.change
        return None

    def _record(self, record: bytes | None, layout: Layout) -> list[Any]:
        if not record or not (record := _line(record)):
            raise _Bad("a record without a value; expected a line of CSV", Fault.EMPTY)
        if layout.problem is not None:
            raise _Bad(layout.problem, Fault.BROKEN)
        values = self._split(record)
        if len(values) != len(layout.places):
            counts = f"{len(values)} fields, expected {len(layout.places)}"
            raise _Bad(f"{counts} ({', '.join(layout.names)}) in {_cut(record)}", Fault.BROKEN)
        row: list[Any] = [None] * len(self._schema.fields)
        for place, name, value in zip(layout.places, layout.names, values, strict=True):
            if place >= 0:
                row[place] = self._value(place, value)
            elif place == _UNKNOWN and not self._is_null(value):
                word = self._contract.columns
                raise _Bad(f"the schema has no such column, and the contract says {word}", _NEW, name)
        for field, found in zip(self._schema, row, strict=True):
            if found is None and field.required:
                raise _Bad("is missing, and its column is required", Fault.MISSING, field)
        return row

    def _value(self, place: int, value: _Value) -> Any:
        field = self._schema.fields[place]
        if self._is_null(value):
            return None
        found = self._reads[place](value.text)
        if found is None and (field.required or self._contract.types != "discard_value"):
            expected = words(field.type, self._format.timestamps)
            bad = _Bad(f'found "{_cut(value.text)}", expected {expected}', Fault.TYPE, field)
            type_ = wider(field.type, value.text) if self._contract.types == "evolve" else None
            bad.change = SchemaChange((field.name,), type_, widens=True) if type_ else None
            raise bad
        return found

    def _is_null(self, value: _Value) -> bool:
        return not value.quoted and value.text in ("", self._format.null)

    def _split(self, record: bytes) -> list[_Value]:
        try:
            line = record.decode()
        except UnicodeDecodeError as problem:
            place = f"byte {problem.start + 1} of {len(record)}"
            raise _Bad(f"not UTF-8 text: {place} is wrong", Fault.BROKEN) from None
        values, at = [], 0
        while True:
            value, at = self._field(line, at)
            values.append(value)
            if at == len(line):
                return values
            at += 1

    def _field(self, line: str, at: int) -> tuple[_Value, int]:
        """A field, and the place of the delimiter behind it or the end."""
        delimiter, quote = self._format.delimiter, self._format.quote
        if quote and line.startswith(quote, at):
            return self._quoted(line, at + 1)
        end = line.find(delimiter, at)
        text = line[at:] if end < 0 else line[at:end]
        if quote and quote in text:
            raise _broken(f"a quote inside a field without quotes: {_cut(text)}")
        if "\n" in text or "\r" in text:
            raise _broken("a line end outside of quotes: a record is one line")
        return _Value(text, False), at + len(text)

    def _quoted(self, line: str, at: int) -> tuple[_Value, int]:
        quote, parts = self._format.quote, []
        while True:
            end = line.find(quote, at)
            if end < 0:
                raise _broken("a quote that is not closed")
            parts.append(line[at:end])
            if not line.startswith(quote, end + 1):
                break
            at = end + 2
        if end + 1 < len(line) and line[end + 1] != self._format.delimiter:
            raise _broken(f"something behind a closing quote: {_cut(line[end:])}")
        return _Value(quote.join(parts), True), end + 1


_NEW = Fault.UNKNOWN_FIELD


def _line(record: bytes) -> bytes:
    """Without its end."""
    return record.removesuffix(b"\n").removesuffix(b"\r")


def _broken(reason: str) -> _Bad:
    return _Bad(f"not CSV: {reason}", Fault.BROKEN)


def _cut(text: str | bytes) -> str:
    shown = text if isinstance(text, str) else text.decode()
    shown = shown if shown.isprintable() else repr(shown)[1:-1]
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
