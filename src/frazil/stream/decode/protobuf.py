"""Protobuf records into Arrow batches of a table's schema. Nothing is guessed, rounded or dropped silently.

- With a registry a record is a zero, the id of its schema in 4 bytes, the place of its message in the schema
  (the count of indexes and the indexes, zigzag varints; a single 0 for the first message), and the message;
  ids may change from record to record. Without one it is the message alone, of the descriptor that is given.
- Fields are found by name, case and all. What no column has is stepped over, makes the record bad or the
  table grow, by the contract for `columns`; so do groups. Numbers that the message does not have are stepped
  over.
- The wire format is read as Google's parsers do: of a field that stands twice the last value counts, messages
  that stand twice are united, of keys of a map that stand twice the last one counts, lists are packed or not,
  a field in another form than its type has counts as not there. Text has to be UTF-8.
- A field that is not there: its default (0, "", false, the enum's 0) where the message cannot tell (proto3,
  without `optional`); an empty list or map; else null if the column is optional. Bad if the column is
  required, or the field (proto2).
- boolean: bool. int, long, decimal(p, s): integers of all kinds, if they are in range.
- float, double: float, double; of a double the nearest float there is.
- string: string; an enum by its name, numbers without one by their digits. int, long: the number of an enum.
- binary: bytes. fixed[n], uuid: so many bytes. uuid, decimal, date, time, timestamp, timestamptz: a string,
  as JSON has them; where the message cannot tell an empty one from none, it is none.
- timestamptz: google.protobuf.Timestamp, if it is whole microseconds, in the years 0001 to 9999. long:
  google.protobuf.Duration, if it is whole microseconds. Either is a struct of seconds and nanos, too.
- The wrappers (google.protobuf.Int64Value, …) are optional values.
- list: repeated. map: map. struct: a message.
- Where the contract for `types` says discard_value, what does not fit is null, by the nearest optional column
  around it; where it says evolve, columns grow to the type of the field if that is wider.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from frazil.core.errors import InvalidConfig, InvalidInput, NotFound
from frazil.core.schema import Schema, SchemaChange
from frazil.stream.config.model import Contract, ProtobufFormat
from frazil.stream.decode import assemble
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.decode.drift import Drift, settled
from frazil.stream.decode.problem import Problem
from frazil.stream.decode.protobuf_frame import Frame, frame_of
from frazil.stream.decode.protobuf_plan import Message, Planner
from frazil.stream.decode.protobuf_reference import ReferenceProgram
from frazil.stream.decode.protobuf_schema import declared_message, iceberg_schema, registered_message
from frazil.stream.registry import RegistryClient
from frazil.stream.source import RawBatch

__all__ = ["ProtobufDecoder", "iceberg_schema"]


@dataclass(frozen=True)
class _Program:
    """What is known of the records that begin in the same way."""

    plan: Message
    reference: ReferenceProgram
    changes: tuple[SchemaChange, ...]


class _Rows(Protocol):
    def rows(
        self, values: pa.BinaryArray, plans: Mapping[bytes, Message]
    ) -> tuple[pa.RecordBatch, list[int]]: ...


class ProtobufDecoder:
    """Decodes batches of records; cheap to build, and pickled as its arguments."""

    def __init__(
        self,
        schema: Schema,
        format: ProtobufFormat,  # noqa: A002 - the settings' own word
        contract: Contract = Contract(),  # noqa: B008 - frozen
        reserved: tuple[str, ...] = (),
    ) -> None:
        """`reserved`: columns of the table that are not of records, which no new field may be called."""
        self._arguments = (schema, format, contract, reserved)
        self._schema, self._contract, self._reserved = schema, contract, reserved
        self._drift = Drift(schema, reserved)
        self._programs = dict[bytes, _Program]()
        self._client = RegistryClient(format.registry) if format.registry else None
        if self._client is None:
            self._programs[b""] = self._program(declared_message(format))
        elif format.descriptors is not None or format.message is not None:
            raise InvalidConfig(
                "records in Protobuf have either a `registry` or `descriptors` and a `message`"
            )
        self._rows = self._native() or self._by_reference

    def decode(self, raw: RawBatch) -> Decoded:
        values = raw.values
        if values.type != pa.binary():
            raise TypeError(f"records come as an array of binary, not of {values.type}")
        unknown = dict[bytes, str]()
        if len(values):
            self._learn(values[0].as_py(), unknown)
        while True:
            rows, bad = self._rows(values, {prefix: one.plan for prefix, one in self._programs.items()})
            records = [(row, values[row].as_py()) for row in bad]
            news = [record for _, record in records if self._learn(record, unknown)]
            if not news:
                break
        changes = [change for one in self._programs.values() for change in one.changes] if len(values) else []
        problems = tuple(self._explain(row, record, unknown) for row, record in records)
        return Decoded(rows, problems, settled(self._schema, changes, self._reserved) if changes else ())

    def _frame(self, record: bytes) -> Frame | None:
        return frame_of(record) if self._client is not None else Frame(b"", 0, ())

    def _learn(self, record: bytes | None, unknown: dict[bytes, str]) -> bool:
        """Whether the schema of the record was new, and was found; why not is in `unknown`."""
        frame = self._frame(record) if record is not None else None
        if frame is None or frame.prefix in self._programs or frame.prefix in unknown or self._client is None:
            return False
        try:
            schema = self._client.schema(frame.schema_id)
            self._programs[frame.prefix] = self._program(registered_message(schema, frame.path))
        except (NotFound, InvalidInput) as problem:
            unknown[frame.prefix] = problem.message
            return False
        return True

    def _program(self, message: Any) -> _Program:
        drift = self._drift.fresh()
        plan = Planner(self._contract, drift).message(message, self._schema.fields)
        return _Program(plan, ReferenceProgram(plan, self._contract), drift.changes)

    def _explain(self, row: int, record: bytes | None, unknown: Mapping[bytes, str]) -> Undecodable:
        try:
            self._record(record, unknown)
        except Problem as problem:
            return problem.of(row)
        raise RuntimeError(
            f"the two Protobuf decoders do not agree on record {row} of the batch: set FRAZIL_NATIVE=0 to go "
            "on without the native one, and please report the record"
        )

    def _record(self, record: bytes | None, unknown: Mapping[bytes, str]) -> dict[str, Any]:
        if record is None:
            raise Problem("a record without a value; expected a Protobuf message", Fault.EMPTY)
        frame = self._frame(record)
        if frame is None:
            raise Problem(
                "no header of a schema registry: a zero, the id of the schema, the place of the message; "
                f"found {len(record)} bytes that begin with {record[:8].hex(' ')}"
            )
        program = self._programs.get(frame.prefix)
        if program is None:
            reason = unknown.get(frame.prefix, "the schema of the record is not known")
            raise Problem(reason, Fault.UNKNOWN_SCHEMA)
        return program.reference.record(record[len(frame.prefix) :])

    def _by_reference(
        self, values: pa.BinaryArray, _: Mapping[bytes, Message]
    ) -> tuple[pa.RecordBatch, list[int]]:
        good, bad = list[dict[str, Any]](), list[int]()
        for row, record in enumerate(values.to_pylist()):
            try:
                good.append(self._record(record, {}))
            except Problem:
                bad.append(row)
        schema = self._schema.to_arrow()
        columns = [
            assemble.retyped(pa.array([row[one.name] for row in good], one.type), one.type) for one in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema), bad

    def _native(self) -> Any:
        """Where it was built; `FRAZIL_NATIVE=0` does without."""
        if os.environ.get("FRAZIL_NATIVE") == "0":
            return None
        try:
            from frazil.stream.decode.protobuf_native import NativeRows
        except ImportError:
            return None
        return NativeRows(self._schema, self._contract).rows

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufDecoder, self._arguments
