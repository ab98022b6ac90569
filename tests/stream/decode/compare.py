"""Both decoders over the same records."""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Literal, get_args

import pyarrow as pa
from tests.stream.decode import generate

from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, Type
from frazil.stream.config.model import Contract, ContractWord, JsonFormat
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.json_native import NativeReader
from frazil.stream.decode.json_reference import ReferenceReader

Timestamps = Literal["iso", "s", "ms", "us"]


_FAULTS = (Fault.BROKEN, Fault.EMPTY, Fault.TYPE, Fault.MISSING, Fault.UNKNOWN_FIELD)


def evolved(columns: Schema, changes: Sequence[SchemaChange]) -> Schema:
    """As a catalog does it."""
    root: Type = StructType(columns.fields)
    for change in changes:
        root = _changed(root, change.path, change)
    assert isinstance(root, StructType)
    return Schema(root.fields).with_fresh_ids()


def _changed(kind: Type, path: tuple[str, ...], change: SchemaChange) -> Type:
    if not path:
        assert change.widens
        return change.type
    name, rest = path[0], path[1:]
    if isinstance(kind, ListType):
        return replace(kind, element=_changed(kind.element, rest, change))
    if isinstance(kind, MapType):
        return replace(kind, value=_changed(kind.value, rest, change))
    assert isinstance(kind, StructType)
    if name not in [field.name for field in kind.fields]:
        assert not rest
        assert not change.widens
        return StructType((*kind.fields, Field(name, change.type)))
    return StructType(
        tuple(
            replace(field, type=_changed(field.type, rest, change)) if field.name == name else field
            for field in kind.fields
        )
    )


def exact(values: pa.BinaryArray) -> pa.BinaryArray:
    """With no spare byte behind the data, where a sanitizer would not see a step too far."""
    validity, offsets, data = values.buffers()
    used = offsets.to_pybytes()[: 4 * (len(values) + 1)]
    size = int.from_bytes(used[-4:], "little")
    tight = (ctypes.c_char * size).from_buffer_copy(data.to_pybytes()[:size])
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, offsets, pa.py_buffer(tight)])


def agree(
    columns: Schema,
    timestamps: Timestamps,
    records: Sequence[bytes | None],
    contract: Contract = Contract(),  # noqa: B008
) -> Decoded:
    """Same rows, same bad records, same changes."""
    settings = JsonFormat(timestamps)
    values = exact(pa.array([b"before the first record", *records], pa.binary()))[1:]
    found = NativeReader(columns, settings, contract).read(values)
    wanted = ReferenceReader(columns, settings, contract).read(values)
    found.rows.validate(full=True)
    assert [one.args for one in found.bad] == [one.args for one in wanted.bad]
    for one in (found, wanted):
        assert one.rows.schema.equals(columns.to_arrow(), check_metadata=True)
    assert found.rows.equals(wanted.rows), f"{found.rows.to_pylist()} is not {wanted.rows.to_pylist()}"
    assert found.changes == wanted.changes
    assert len(found.rows) == (0 if found.changes else len(records) - len(found.bad))
    return found


def random_round(rng: Random) -> Decoded:
    """One schema and a batch for it, some of it spoilt, under any contract; in the end no change is left."""
    timestamps = rng.choice(get_args(Timestamps))
    columns = generate.schema(rng)
    made = [generate.record(rng, columns, timestamps) for _ in range(rng.randint(0, 12))]
    spoilt = [generate.mutated(rng, one) if rng.random() < 0.3 else one for one in made]
    records = [None if rng.random() < 0.01 else one for one in spoilt]
    contract = Contract(columns=rng.choice(get_args(ContractWord)), types=rng.choice(get_args(ContractWord)))
    found = first = agree(columns, timestamps, records, contract)
    for _ in range(10):
        if not found.changes:
            return first
        columns = evolved(columns, found.changes)
        found = agree(columns, timestamps, records, contract)
    raise AssertionError(f"there is always more to change: {found.changes}")


def cuts() -> None:
    """Every beginning of a record at the very end of the data."""
    columns = Schema((Field("k", "long"), Field("timestamp", "double"), Field("a_long_name", "string")))
    whole = '{"k":1234567890,"timestamp":1.5e10,"a_long_name":"text é \\u00e9 of some length"}'.encode()
    for at in range(len(whole) + 1):
        agree(columns, "iso", [whole[:at]])
    for before in range(8):
        agree(columns, "iso", [b"x" * before, b'{"k":1}'])


def fuzz(seed: int, seconds: float) -> None:
    """Random rounds for so long."""
    cuts()
    end = time.monotonic() + seconds
    rounds = good = changed = 0
    faults: Counter[Fault] = Counter()
    while time.monotonic() < end:
        found = random_round(Random(f"{seed}-{rounds}"))
        rounds, good, changed = rounds + 1, good + len(found.rows), changed + len(found.changes)
        faults.update(bad.fault for bad in found.bad)
    print(f"{rounds} rounds, {good} good, {changed} changes, {faults}")
    assert good > 100
    assert changed > 10
    assert all(faults[fault] for fault in _FAULTS)
