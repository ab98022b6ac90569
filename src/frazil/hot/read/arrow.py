"""Both tiers as Arrow, in this process and without Spark: for answers that fit into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import InvalidInput
from frazil.core.schema import Schema
from frazil.hot.log import log_reader
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.pins import Pinned, Pins, confirm, opened, pinned, pinned_schema
from frazil.hot.read.predicates import Condition, OneOf
from frazil.hot.read.tail import GONE, TailRead
from frazil.lake import wanted
from frazil.lake.arrow_scan import ArrowScan, without
from frazil.lake.data_rows import Columns
from frazil.lake.key_match import KeyMatcher
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.stream.source import Slice

#: Types whose values are equal in one way only; columns of a key have others, too, and are equal as keys are.
_EXACT = ("int", "long", "string", "date")


def read_arrow(
    name: str,
    *,
    columns: Sequence[str] | None = None,
    where: Mapping[str, object] | None = None,
    pins: Pins | str | None = None,
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
) -> pa.Table:
    """A table as it is now, or as it was pinned.

    `where`: values of columns, of rows that alone are wanted; files that cannot have them are not opened.
    Columns of the key, and others that are whole numbers, texts or days.

    >>> read_arrow("shop.orders", where={"order_id": 7}).to_pylist()  # doctest: +SKIP
    [{'order_id': 7, 'amount': 12.5}]
    """
    with connected(catalog) as client:
        found = found_at(client, name, pins, kafka)
        if where is not None and not where:
            raise InvalidInput(f"rows of {found} are looked for by nothing: give values of columns")
        conditions = [OneOf(column, (value,)) for column, value in (where or {}).items()]
        return Union(found, client, kafka, columns=columns, where=conditions).table()


def found_at(
    client: Client, name: str, pins: Pins | str | None = None, kafka: Mapping[str, str] | None = None
) -> Pinned:
    """The table at its pins, at those of now if there are none."""
    if pins is None:
        return pinned(client, name, kafka=kafka)
    wanted = Pins.decode(pins) if isinstance(pins, str) else pins
    if wanted.table != name:
        raise InvalidInput(f"these pins are of the table {wanted.table}, not of {name}")
    return opened(client, wanted, kafka=kafka)


class Union:
    """The rows of a pinned table."""

    def __init__(
        self,
        found: Pinned,
        client: Client,
        kafka: Mapping[str, str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: Sequence[Condition] = (),
    ) -> None:
        """`where`: of rows that alone are wanted, all of these."""
        self._found = found
        self._client = client
        self._kafka = kafka or {}
        self._all = Schema.from_json(pinned_schema(found), str(found))
        self._key = key_of(found, self._all)
        names = [field.name for field in self._all] if columns is None else list(columns)
        self._names = [self._all.field(name).name for name in names]
        # But for the key, and for something that tells how many rows there are, nothing else is read.
        needed = {*self._names, *self._key, *(one.column for one in where)} or {self._all.fields[0].name}
        self._read = Columns(Schema(tuple(field for field in self._all if field.name in needed)))
        self._where = [self._wanted(one) for one in where]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self._read.fitter.schema.field(name) for name in self._names])

    def table(self) -> pa.Table:
        """All rows. What was read is known to be of the pins when this returns."""
        return pa.Table.from_batches(self.batches(), self._read.fitter.schema).select(self._names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """With the key, whether it was asked for or not."""
        tail = self._tail()
        confirm(self._found, self._kafka)
        gone = None
        if self._key and len(tail):
            gone = KeyMatcher([tail.column(name).combine_chunks() for name in self._key])
        for batch in self._base():
            kept = batch if gone is None else without(pa.Table.from_batches([batch]), self._key, gone)
            yield from kept.to_batches() if isinstance(kept, pa.Table) else [kept]
        rows = tail.filter(pa.compute.invert(tail.column(GONE))).drop_columns([GONE])
        for sieve in (one.sieve({}) for one in self._where):
            if len(rows):
                columns = [rows.column(field.name).combine_chunks() for field in sieve.columns.schema]
                rows = rows.filter(pa.array(sieve.mask(columns)))
        yield from rows.to_batches()

    def _base(self) -> Iterator[pa.RecordBatch]:
        found = self._found
        if found.pins.snapshot is None:
            return
        places = ReadKeys(self._client, found.namespace, found.name).places(found.metadata)
        scan = ArrowScan(
            found.metadata, found.pins.snapshot, self._read.schema, PlacedFiles(places), self._where
        )
        yield from scan.batches()

    def _tail(self) -> pa.Table:
        """Of all keys, whatever is asked for: a row that no longer fits takes its old one away."""
        read = tail_read(self._found, self._all, self._key, self._kafka)
        return tail_table(read, self._read, self._found.pins.slices())

    def _wanted(self, condition: Condition) -> wanted.Condition:
        field = next((one for one in self._all if one.name == condition.column), None)
        if field is None or (field.name not in self._key and field.type not in _EXACT):
            raise InvalidInput(
                f"rows of {self._found} are looked for by {condition.column}; legal: columns of its key "
                f"({', '.join(self._key) or 'it has none'}), and of the types {', '.join(_EXACT)}"
            )
        schema = Schema((field,))
        fitter = Columns(schema).fitter
        given = condition.values if isinstance(condition, OneOf) else (condition.low, condition.high)
        batch = fitter.fit(pa.RecordBatch.from_pydict({field.name: list(given)}))
        if isinstance(condition, OneOf):
            return wanted.Wanted(schema, pa.Table.from_batches([batch], fitter.schema))
        return wanted.Between(field, batch.column(0))


def tail_table(read: TailRead | None, columns: Columns, slices: Sequence[Slice]) -> pa.Table:
    """The tail in those columns, with `GONE`."""
    fitter, found = columns.fitter, []
    for batch in [] if read is None else read.batches(slices):
        fitted = fitter.fit(batch.drop_columns([GONE]).select(fitter.schema.names))
        found.append(fitted.append_column(GONE, batch.column(GONE)))
    return pa.Table.from_batches(found, fitter.schema.append(pa.field(GONE, pa.bool_())))


def key_of(found: Pinned, schema: Schema) -> tuple[str, ...]:
    """The key columns under the names of the answer; none of a table whose rows are only appended."""
    if found.hot is None:
        return ()
    ids = {found.hot.schema.field(name).id for name in found.hot.key}
    return tuple(field.name for field in schema if field.id in ids)


def tail_read(
    found: Pinned, schema: Schema, key: tuple[str, ...], kafka: Mapping[str, str]
) -> TailRead | None:
    """What reads the tail; None: there is none."""
    if found.hot is None or not found.pins.tail:
        return None
    reader = log_reader(found.hot.settings(kafka))
    lenient = found.hot.letters is not None
    return TailRead(str(found), reader, schema, key, lenient, several=len(found.pins.starts) > 1)
