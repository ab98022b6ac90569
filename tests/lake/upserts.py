"""A table whose rows are replaced by key, beside a dict that says what they should be."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from tests.lake.support import SOURCE

from frazil.client import Client
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Position, Stamp
from frazil.lake.catalog import Lake
from frazil.lake.files import DataFile, FileOptions
from frazil.lake.keyed import KeyedRound, KeyedTable, Round
from frazil.lake.lookup import Found, Lookup, LookupTask, look_up
from frazil.lake.patches import Patches
from frazil.lake.writer import TableWriter
from frazil.lake.writers import PipelineWriter, RoundTicket

PIPELINE = "people"
_numbers = itertools.count(1)
SCHEMA = Schema((Field("id", "long", required=True), Field("place", "string"), Field("word", "string")))

Key = tuple[Any, ...]
Row = dict[str, Any]


class KeyedWorld:
    """One table, its writer, and what its rows should be."""

    def __init__(
        self,
        lake: Lake,
        client: Client,
        *,
        schema: Schema = SCHEMA,
        key: Sequence[str] = ("id",),
        partitioning: Sequence[str] = (),
        version: int = 3,
        options: FileOptions | None = None,
    ) -> None:
        self.lake = lake
        self._client = client
        self.key = tuple(key)
        self.options = options or FileOptions()
        name = f"k{next(_numbers)}"
        self.table = lake.create(
            ("keyed",), name, schema, parse_partitioning(partitioning), format_version=version
        )
        self.name = f"frazil.keyed.{name}"
        self.keyed = KeyedTable(self.key)
        self.model: dict[Key, Row] = {}
        self.writer = self.claim()
        self.rounds: list[KeyedRound] = []

    def claim(self) -> PipelineWriter:
        own = self.lake.load(self.table.namespace, self.table.name)
        first = SOURCE, {"people": Position("topic-1", (0,))}
        return PipelineWriter.claim(self.lake, own, PIPELINE, lambda: first, "")

    def write(self, ticket: RoundTicket, rows: Iterable[Row], number: int = 0) -> list[DataFile]:
        """Files of the round with those rows."""
        given = list(rows)
        if not given:
            return []
        table = self.writer.table
        target = table.write_target(self.options)
        writer = TableWriter(target, table.storage(), f"{ticket.prefix}-{number:05d}")
        writer.write(batch_of(given, ticket.schema))
        return writer.close()

    def upsert(
        self,
        rows: Sequence[Row] = (),
        gone: Sequence[Key] = (),
        *,
        holes: Sequence[tuple[Row, Sequence[str]]] = (),
        truncates: bool = False,
        before: Any = None,
        complete: bool = False,
    ) -> Stamp:
        """A round: rows that come, keys that go, rows with holes. `before` is called after the first look."""
        ticket = self.writer.begin()
        keys = [self.key_of(row) for row in rows] + list(gone)
        table = self.keys_table(keys, ticket.schema)
        patches = self.patches(holes, ticket.schema)
        wanted = Round(table, self.write(ticket, rows), patches, truncates, complete=complete)
        stamp = self.commit(ticket, wanted, len(rows), before)
        if truncates:
            self.model.clear()
        for key in gone:
            self.model.pop(key, None)
        for row in rows:
            self.model[self.key_of(row)] = row
        for row, lacking in holes:
            if complete and self.key_of(row) not in self.model:
                continue
            current = self.model.get(self.key_of(row), {})
            self.model[self.key_of(row)] = row | {name: current.get(name) for name in lacking}
        return stamp

    def patches(self, holes: Sequence[tuple[Row, Sequence[str]]], schema: Schema) -> Patches | None:
        if not holes:
            return None
        names = [field.name for field in schema]
        masks = [sum(1 << names.index(name) for name in lacking) for _, lacking in holes]
        return Patches(
            pa.Table.from_batches([batch_of([row for row, _ in holes], schema)]),
            pa.array([mask.to_bytes(-(-len(names) // 8), "little") for mask in masks], pa.binary()),
        )

    def commit(self, ticket: RoundTicket, wanted: Round, written: int, before: Any = None) -> Stamp:
        """`before` is called after the first look."""
        storage = self.writer.table.storage()
        events = [] if before is None else [before]

        def run(lookup: Lookup, tasks: Sequence[LookupTask]) -> list[Found]:
            found = [look_up(task, lookup, storage) for task in tasks]
            if events:
                events.pop()()
            return found

        deltas = KeyedRound(self.keyed, wanted, ticket.prefix, run, slots=2, options=self.options)
        self.rounds.append(deltas)
        stamp = self.writer.commit(
            ticket,
            {str(self.writer.table): deltas},
            positions={"people": Position("topic-1", (ticket.round,))},
            read=len(wanted.keys),
            written=written,
            watermark=None,
        )
        assert not events, "nothing was looked up"
        return stamp

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def keys_table(self, keys: Sequence[Key], schema: Schema) -> pa.Table:
        arrow = schema.to_arrow()
        columns = [
            pa.array([key[number] for key in keys], arrow.field(name).type)
            for number, name in enumerate(self.key)
        ]
        return pa.Table.from_arrays(columns, names=list(self.key))

    def sql(self, text: str) -> None:
        """A statement of Spark on the table, as {t}."""
        self.lake.spark.sql(text.format(t=self.name)).collect()

    def live(self) -> Any:
        """The files of the table as it is now."""
        now = self.lake.load(self.table.namespace, self.table.name)
        return now, KeyedTable(self.key).live(now)

    def check(self, duck: Any = None, *, pyiceberg: bool = True) -> None:
        """Every reader sees the model, and no data file has two deletion vectors."""
        names = [field.name for field in self.lake.load(self.table.namespace, self.table.name).schema]
        wanted = sorted(shown({name: row.get(name) for name in names}) for row in self.model.values())
        by_spark = self.lake.spark.table(self.name).toArrow()
        check_same(by_spark, wanted)
        self.check_vectors()
        if not pyiceberg:
            return
        by_pyiceberg = load_catalog("reader", type="rest", uri=f"{self._client.uri}/catalog")
        loaded = by_pyiceberg.load_table((*self.table.namespace, self.table.name))
        check_same(loaded.scan().to_arrow(), wanted)
        if duck is not None:
            by_duck = duck.execute(f"SELECT * FROM lake.keyed.{self.table.name}").to_arrow_table()
            check_same(by_duck, wanted)

    def check_vectors(self) -> None:
        rows = self.lake.spark.sql(
            f"SELECT referenced_data_file, file_format, count(*) AS n FROM {self.name}.delete_files "
            "WHERE referenced_data_file IS NOT NULL GROUP BY ALL"
        ).collect()
        assert [row for row in rows if row.file_format == "PUFFIN" and row.n > 1] == []


def batch_of(rows: Sequence[Row], schema: Schema) -> pa.RecordBatch:
    arrow = schema.to_arrow()
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in arrow]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def shown(row: Row) -> str:
    return repr(sorted(row.items()))


def check_same(found: pa.Table, wanted: list[str]) -> None:
    rows, model = Counter(map(shown, found.to_pylist())), Counter(wanted)
    much, little = list((rows - model).elements()), list((model - rows).elements())
    assert much + little == [], f"too much: {much}, too little: {little}"
