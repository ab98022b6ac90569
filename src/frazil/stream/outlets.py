"""Inside tasks: rows go to the files of one table or of many, bad records to the dead-letter table's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.errors import BadRecord, InvalidInput
from frazil.core.names import check_name, name_key
from frazil.core.schema import arrow_type
from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter
from frazil.stream.dead_letters import DECODE, ROUTE, letters
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decoding import Rows
from frazil.stream.needs import Lacking, Needs
from frazil.stream.spark_types import from_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.client import VendedCredentials
    from frazil.stream.source import RawBatch

    #: By table; local places need none.
    Keys = Mapping[str, VendedCredentials]

_HOLE = re.compile(r"\{([^{}]+)\}")
#: In a template: the topic of the record.
TOPIC = "topic"
#: More tables than this in one round of a task are a mistake in the template, or an attack.
_MOST_TABLES = 1000


class Outlet(Protocol):
    """Where a task puts what it made of its records."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows without their records, as a transform gives them."""

    def take(self, rows: Rows) -> int:
        """A decoded batch, bad records included; how many became no row."""

    def set_aside(self, raw: RawBatch, bad: Sequence[Undecodable], stage: str) -> None:
        """Bad records alone."""

    def close(self) -> Mapping[str, tuple[DataFile, ...]]:
        """The finished files by table. Lacking: tables are not there."""

    def abort(self) -> None:
        """Remove what was written, as far as the store lets us; never raises."""


class Writing(Protocol):
    """A description of where a round's rows go: made by the sink, opened in each task."""

    @property
    def single(self) -> bool:
        """Whether one task must write all of the round."""

    def open(self, number: int, attempt: int, keys: Keys) -> Outlet: ...


@dataclass(frozen=True)
class Destination:
    """A table's files of one round. The task's number and its attempt complete their names."""

    target: WriteTarget
    prefix: str


@dataclass(frozen=True)
class TableWriting:
    """Rows go to Iceberg tables."""

    pipeline: str
    #: By name as `show` writes it.
    tables: Mapping[str, Destination]
    #: The table, or a template with columns in braces.
    table: str
    #: The table for bad records; None: there must not be any.
    dead_letters: str | None = None
    #: Rows for a table that is not there: it is made, the pipeline stops, or they become dead letters.
    unknown_tables: str = "evolve"
    single: bool = False
    #: Tables that rows cannot or may not go to, with the reason: those rows become dead letters.
    refused: Mapping[str, str] = field(default_factory=dict)

    def open(self, number: int, attempt: int, keys: Keys) -> Outlet:
        return TableOutlet(self, number, attempt, keys)


@dataclass
class TableOutlet:
    """Opens a writer for each table that gets rows."""

    writing: TableWriting
    number: int
    attempt: int
    keys: Keys = field(repr=False)

    def __post_init__(self) -> None:
        self._writers: dict[str, TableWriter] = {}
        self._missing: dict[str, None] = {}
        self._known = {name_key(name): name for name in self.writing.tables}
        self._template = _HOLE.split(self.writing.table)
        #: Where the name of a table begins behind its namespace, in which there are no columns.
        self._behind = self._template[0].rfind(".") + 1

    def write(self, rows: pa.RecordBatch) -> None:
        for name, part in self._routed(rows, None, []):
            known = self._known.get(name_key(name))
            schema = None if known is None else self.writing.tables[known].target.schema
            self._put(name, part if schema is None else from_spark(part, schema))

    def take(self, rows: Rows) -> int:
        lost: list[Undecodable] = []
        for name, part in self._routed(rows.batch, rows, lost):
            self._put(name, part)
        if rows.bad:
            self.set_aside(rows.raw, rows.bad, DECODE)
        if lost and self.writing.dead_letters is None:
            at = (rows.raw.topic, rows.raw.partition, rows.raw.offsets[lost[0].index].as_py())
            raise BadRecord.at(at, lost[0].reason)
        if lost:
            self.set_aside(rows.raw, lost, ROUTE)
        return len(rows.bad) + len(lost)

    def unroutable(self, rows: Rows) -> list[Undecodable]:
        """Records that are for no table; nothing is written."""
        lost: list[Undecodable] = []
        for _ in self._routed(rows.batch, rows, lost):
            pass
        return lost

    def close(self) -> Mapping[str, tuple[DataFile, ...]]:
        if self._missing:
            self.abort()
            raise Lacking(Needs.of(tables=self._missing))
        return {name: tuple(writer.close()) for name, writer in self._writers.items()}

    def abort(self) -> None:
        for writer in self._writers.values():
            writer.abort()

    def _put(self, name: str, rows: pa.RecordBatch) -> None:
        known = self._known.get(name_key(name))
        if known is None:
            self._missing[name] = None
            if len(self._missing) > _MOST_TABLES:
                raise InvalidInput(
                    f"rows of one round are for more than {_MOST_TABLES} tables that are not there: is "
                    f"'{self.writing.table}' meant to make one for each of these values?"
                )
        elif not self._missing:
            if known not in self._writers:
                self._writers[known] = self._open(known)
            self._writers[known].write(rows)

    def _open(self, name: str) -> TableWriter:
        to = self.writing.tables[name]
        storage = FileStorage.of(to.target.location, self.keys.get(name))
        return TableWriter(to.target, storage, f"{to.prefix}-{self.number:05d}-{self.attempt}")

    def set_aside(self, raw: RawBatch, bad: Sequence[Undecodable], stage: str) -> None:
        assert self.writing.dead_letters is not None, "the first bad record ends a strict round"
        self._put(self.writing.dead_letters, letters(self.writing.pipeline, raw, bad, stage))

    def _routed(
        self, rows: pa.RecordBatch, of: Rows | None, lost: list[Undecodable]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows by table; records that cannot be routed are added to `lost`."""
        if len(self._template) == 1:
            yield self.writing.table, rows
            return
        names = self._names(rows, of).dictionary_encode()
        for number, name in enumerate(names.dictionary.to_pylist()):
            at = pc.equal(names.indices, number)
            wrong = self._refused(name)
            if wrong is None:
                yield name, rows.filter(at)
            else:
                lost += _unrouted(of, at, wrong)
        if names.null_count:
            wrong = f"it has no value for {self._columns()} that a name can have"
            lost += _unrouted(of, names.is_null(), wrong)

    def _names(self, rows: pa.RecordBatch, of: Rows | None) -> pa.StringArray:
        parts: list[pa.Array | pa.Scalar] = []
        for number, text in enumerate(self._template):
            if number % 2 == 0:
                parts.append(pa.scalar(text))
            elif text == TOPIC and of is not None:
                parts.append(pa.scalar(of.raw.topic.replace(".", "_")))
            else:
                # A dot would have to be quoted in every query.
                parts.append(pc.replace_substring(_texts(rows.column(text), text), ".", "_"))
        joined = pc.binary_join_element_wise(*parts, "")
        return joined if isinstance(joined, pa.Array) else pa.repeat(joined, len(rows))

    def _refused(self, name: str) -> str | None:
        for refused, reason in self.writing.refused.items():
            if name_key(refused) == name_key(name):
                return reason
        if name_key(name) not in self._known and self.writing.unknown_tables != "evolve":
            reason = f"there is no table {name}, and the contract says {self.writing.unknown_tables}"
            if self.writing.unknown_tables == "freeze":
                raise InvalidInput(f"{reason}. Make the table, or let `contract.tables` be evolve")
            return reason
        try:
            check_name(name[self._behind :], f"the table of {self._columns()}")
        except InvalidInput as error:
            return error.message
        return None

    def _columns(self) -> str:
        return ", ".join(self._template[1::2])


def _texts(values: pa.Array, column: str) -> pa.StringArray:
    """As names have them; null for bytes that are no text."""
    kind = values.type
    if pa.types.is_nested(kind):
        raise InvalidInput(f"tables cannot be named by '{column}', which is no single value: name another")
    if not (pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        return values.cast(pa.string())
    encoded = values.dictionary_encode()
    is_uuid = kind == arrow_type("uuid")
    made = [_text(value, is_uuid=is_uuid) for value in encoded.dictionary.to_pylist()]
    return pa.array(made, pa.string()).take(encoded.indices)


def _text(value: bytes, *, is_uuid: bool) -> str | None:
    try:
        return str(UUID(bytes=value)) if is_uuid else value.decode()
    except UnicodeDecodeError:
        return None


def _unrouted(of: Rows | None, at: pa.BooleanArray, reason: str) -> list[Undecodable]:
    if of is None:
        raise InvalidInput(f"a row of the transform is for no table: {reason}")
    bad = {each.index for each in of.bad}
    good = [index for index in range(len(of.raw)) if index not in bad] if bad else range(len(of.raw))
    rows = pc.indices_nonzero(at).to_pylist()
    return [Undecodable(good[row], reason, None, Fault.ROUTE) for row in rows]
