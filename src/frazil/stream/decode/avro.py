"""Avro records into Arrow batches of a table's schema. Nothing is guessed, rounded or dropped silently.

- With a registry a record is a zero, the id of its schema in 4 bytes, and the record in Avro's binary form;
  ids may change from record to record. Without one it is the record alone, of the schema that is given.
- Fields are found by name, case and all; where no field has the name of a column, by a field's alias. What no
  column has is stepped over, makes the record bad or the table grow, by the contract for `columns`.
- A column that the writer's schema does not have, or a null: null if the column is optional, else bad.
- boolean: boolean. int: int, and long in range. long: int, long. float, double: int, long, float, double; of
  a double the nearest float there is.
- string: string, enum, and bytes of UTF-8. binary: bytes, string, fixed. fixed[n]: n bytes, fixed or not.
- uuid: fixed of 16 bytes, and a string of 36 characters.
- decimal(p, s): decimal, if it is exactly a decimal(p, s).
- date: date. time: time-millis, time-micros. timestamptz: timestamp-millis, -micros, and -nanos if those are
  whole microseconds; timestamp: the same with local- before it. Years 0001 to 9999.
- list: array. map: map, no key twice. struct: record. Of a union each branch counts by itself.
- More than 64 records, arrays and maps inside each other: bad. So is anything behind the record.
- Where the contract for `types` says discard_value, what does not fit is null, by the nearest optional column
  around it; where it says evolve, columns grow to the writer's type if that is wider (int, float, decimal).
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import pyarrow as pa

from frazil.core.errors import InvalidConfig, NotFound
from frazil.core.schema import MapType, Schema, StructType, Type, show_type
from frazil.stream.config.model import AvroFormat, Contract
from frazil.stream.decode.avro_plan import Op, Plan, Step, columns_of, resolve
from frazil.stream.decode.avro_reference import read_record, rows_batch
from frazil.stream.decode.avro_schema import iceberg_schema, parse_avro
from frazil.stream.decode.columns import fields_of
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.decode.drift import Drift, settled
from frazil.stream.decode.problem import Problem
from frazil.stream.registry import NO_HEADER, NO_VALUE, RegistryClient, header_ids, split_header
from frazil.stream.source import RawBatch

__all__ = ["AvroDecoder", "iceberg_schema"]

#: The plan of records that have no header stands under this in place of an id.
_ONLY = -3


class _Native(Protocol):
    def ids(self, values: pa.BinaryArray) -> list[int]: ...

    def read(
        self, values: pa.BinaryArray, plans: dict[int, Plan], *, header: bool
    ) -> tuple[pa.RecordBatch, list[int]]: ...


class AvroDecoder:
    """Decodes batches of records; cheap to build, and pickled as its arguments."""

    def __init__(
        self,
        schema: Schema,
        format: AvroFormat,  # noqa: A002 - the settings' own word
        contract: Contract = Contract(),  # noqa: B008 - frozen
        reserved: tuple[str, ...] = (),
    ) -> None:
        """`reserved`: columns of the table that are not of records, which no new field may be called."""
        _check(StructType(schema.fields), "")
        if (format.registry is None) is (format.schema is None):
            raise InvalidConfig("records in Avro have either a `registry` or one `schema`")
        self._arguments = (schema, format, contract, reserved)
        self._drift = Drift(schema, reserved)
        self._columns = columns_of(schema)
        self._plans: dict[int, Plan] = {}
        self._client = RegistryClient(format.registry) if format.registry else None
        if format.schema is not None:
            self._plans[_ONLY] = resolve(parse_avro(format.schema), self._columns, contract, self._drift)
        self._native = _native(schema)

    def decode(self, raw: RawBatch) -> Decoded:
        """All of them. Unavailable if the registry does not answer; bad records are in the result."""
        values = raw.values
        if values.type != pa.binary():
            raise TypeError(f"records come as an array of binary, not of {values.type}")
        plans = self._plans_of(values)
        changes = [change for plan in plans.values() for change in plan.changes]
        if self._native is None:
            rows, bad = self._read(values, plans)
        else:
            rows, places = self._native.read(values, plans, header=self._client is not None)
            bad = [self._explain(place, values[place].as_py(), plans) for place in places]
        schema, _, _, reserved = self._arguments
        return Decoded(rows, tuple(bad), settled(schema, changes, reserved) if changes else ())

    def _plans_of(self, values: pa.BinaryArray) -> dict[int, Plan]:
        """By the ids in a batch."""
        if self._client is None:
            return self._plans
        if self._native is not None:
            ids = self._native.ids(values)
        else:
            ids = sorted(set(header_ids(values).tolist()) - {NO_VALUE, NO_HEADER})
        return {number: self._plan(self._client, number) for number in ids}

    def _plan(self, client: RegistryClient, number: int) -> Plan:
        known = self._plans.get(number)
        if known is not None:
            return known
        try:
            registered = client.schema(number)
        except NotFound as problem:
            return _unknown(problem.message)
        if registered.kind != "AVRO":
            return _unknown(f"schema {number} is one of {registered.kind}, not of Avro")
        try:
            writer = parse_avro(registered.text, registered.references)
        except InvalidConfig as problem:
            return _unknown(f"schema {number}: {problem.message}")
        plan = self._plans[number] = resolve(writer, self._columns, self._arguments[2], self._drift)
        return plan

    def _read(
        self, values: pa.BinaryArray, plans: dict[int, Plan]
    ) -> tuple[pa.RecordBatch, list[Undecodable]]:
        rows: list[Any] = []
        bad: list[Undecodable] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append(self._row(value, plans))
            except Problem as problem:
                bad.append(problem.of(index))
        return rows_batch(rows, self._arguments[0]), bad

    def _row(self, value: bytes | None, plans: dict[int, Plan]) -> Any:
        if value is None:
            raise Problem("a record without a value; expected one of Avro", Fault.EMPTY)
        if self._client is None:
            return read_record(value, plans[_ONLY].root)
        found = split_header(value)
        if found is None:
            raise Problem(
                f"begins with {value[:5].hex(' ') or 'nothing'}; expected 00, the id of a schema in 4 bytes, "
                "and the record"
            )
        return read_record(found[1], plans[found[0]].root)

    def _explain(self, index: int, value: bytes | None, plans: dict[int, Plan]) -> Undecodable:
        try:
            self._row(value, plans)
        except Problem as problem:
            return problem.of(index)
        raise RuntimeError(
            f"the two Avro decoders do not agree on record {index} of the batch: set FRAZIL_NATIVE=0 to go "
            "on without the native one, and please report the record and its schema"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroDecoder, self._arguments


def _unknown(reason: str) -> Plan:
    return Plan(Step(Op.BAD, reason=reason, fault=Fault.UNKNOWN_SCHEMA))


def _native(schema: Schema) -> _Native | None:
    """Where it was built; `FRAZIL_NATIVE=0` does without."""
    if os.environ.get("FRAZIL_NATIVE") == "0":
        return None
    try:
        from frazil.stream.decode.avro_native import NativeReader
    except ImportError:
        return None
    return NativeReader(schema)


def _check(kind: Type, path: str) -> None:
    if isinstance(kind, MapType) and kind.key != "string":
        raise InvalidConfig(
            f"column '{path}': {show_type(kind)} cannot be read from Avro, where keys are strings; "
            f"make it map<string, {show_type(kind.value)}>"
        )
    for field in fields_of(kind):
        _check(field.type, f"{path}.{field.name}" if path else field.name)
