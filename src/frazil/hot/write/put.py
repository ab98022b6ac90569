"""Rows into a hot table, from Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.client import Client
from frazil.client.naming import identifier
from frazil.core.errors import InvalidInput, Unsupported
from frazil.core.schema import Schema
from frazil.hot.cluster import Cluster, load_cluster
from frazil.hot.declared.options import BUCKET_KEY
from frazil.hot.find import load_hot_table
from frazil.hot.log import require_topic
from frazil.hot.table import HotTable
from frazil.hot.topics import Topics
from frazil.hot.write.encode import JsonRows, Unwritable
from frazil.hot.write.fit import Fit
from frazil.hot.write.sending import Sender
from frazil.stream.config.model import CatalogConfig
from frazil.stream.sizes import LARGEST


@dataclass(frozen=True)
class Records:
    """Records that are ready to be sent."""

    keys: pa.BinaryArray
    values: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.values)


_Make: TypeAlias = Callable[[pa.RecordBatch, int], Records]
_INDEX = re.compile("__index_level_[0-9]+__")


class Encoding:
    """From rows to the records of one table; InvalidInput names the row and the column that does not fit."""

    def __init__(self, table: HotTable, largest: int) -> None:
        """`largest`: bytes that a record can have."""
        # Whatever brokers take: what is larger is no row to those who read the log.
        self._largest = min(largest, LARGEST)
        self._what = str(table)
        self.rows = Fit(table.schema, self._what)
        self._values = JsonRows(table.schema)
        # A log's rows have no key, but may go by some columns.
        written = table.properties.get(BUCKET_KEY)
        apart = tuple(part.strip() for part in written.split(",")) if written and not table.key else ()
        self._keys = JsonRows(table.schema, table.key or apart) if table.key or apart else None
        fields = (replace(table.schema.field(name), required=True) for name in table.key)
        self._key_fit = Fit(Schema(tuple(fields)), f"the primary key of {self._what}") if table.key else None

    def key_fit(self) -> Fit:
        """Of the keys of rows that go; Unsupported."""
        if self._key_fit is None:
            raise Unsupported(f"{self._what} has no primary key by which rows could be deleted")
        return self._key_fit

    def upserts(self, rows: pa.RecordBatch, first: int = 0) -> Records:
        """`first`: rows that came before these."""
        return self._made(rows, first, self._values)

    def deletes(self, keys: pa.RecordBatch, first: int = 0) -> Records:
        return self._made(keys, first, None)

    def _made(self, rows: pa.RecordBatch, first: int, encode: JsonRows | None) -> Records:
        try:
            values = pa.nulls(len(rows), pa.binary()) if encode is None else encode.encode(rows)
            none = pa.nulls(len(rows), pa.binary())
            keys = none if self._keys is None else self._keys.encode(rows)
        except Unwritable as error:
            self.rows.refuse(first + error.row + 1, error.column, error.reason)
        sizes = pc.add(*(pc.fill_null(pc.binary_length(one), 0) for one in (keys, values)))
        if len(rows) and pc.max(sizes).as_py() > self._largest:
            row = pc.index(pc.greater(sizes, self._largest), True).as_py()
            reason = f"{sizes[row].as_py()} bytes as JSON; legal are up to {self._largest}"
            more = " (`message.max.bytes`)" if self._largest < LARGEST else ""
            self.rows.refuse(first + row + 1, None, f"{reason}{more}")
        return Records(keys, values)


class Writer:
    """Puts rows into a hot table, and deletes them by their key. For one thread.

    A row replaces the whole row that has its key; columns that it does not have are null. What was put is in
    the log after `flush`, and after the `with` block. Each call checks all of its rows first: if one does not
    fit, nothing of the call is sent.
    """

    def __init__(self, table: HotTable, kafka: Mapping[str, str] | None = None) -> None:
        """`kafka`: settings that count before what the table knows of its brokers."""
        self.table = table
        self._settings = table.settings(kafka or {})
        # The log must be the one that the table was made with.
        require_topic(table, Topics(self._settings).look(table.topic))
        self._sender = Sender(table.topic, self._settings)
        self._encoding = Encoding(table, self._sender.largest)

    def put(self, rows: Any, first: int = 0) -> int:
        """Put rows: a list of dicts, anything that is an Arrow table (pyarrow, pandas, Polars, DuckDB), or a
        DataFrame of Spark. Returns how many there were.

        Of a DataFrame, each of its batches is checked by itself, and tasks that Spark repeats send their rows
        again: harmless where there is a primary key, rows twice where there is none. `first`: how many rows
        came before, for messages.
        """
        if _is_frame(rows):
            from frazil.hot.write.frames import put_frame

            # What was put before comes before.
            self.flush()
            return put_frame(rows, self.table, self._settings)
        encoding = self._encoding
        return self._send(self._counted(_batches(rows, encoding.rows, first), encoding.upserts, first))

    def put_lines(self, lines: Sequence[bytes], first: int = 0) -> int:
        """Put JSON objects, one in each line; `first`: how many came before, for messages."""
        return self._send([self._encoding.upserts(self._encoding.rows.lines(lines, first), first)])

    def delete(self, keys: Any, first: int = 0) -> int:
        """Delete rows: keys as dicts, as values if the key is one column, or in the columns of anything that
        `put` takes as a table, whose other columns do not count. A key that no row has is fine."""
        fit = self._encoding.key_fit()
        if _is_frame(keys):
            from frazil.hot.write.frames import delete_frame

            self.flush()
            return delete_frame(keys, self.table, self._settings)
        if isinstance(keys, Sequence) and not isinstance(keys, str | bytes):
            keys = [self._key_of(one) for one in keys]
        elif not isinstance(keys, Mapping):
            given = _arrow(keys)
            keys = given.select(key_columns(self.table, given.column_names))
        return self._send(self._counted(_batches(keys, fit, first), self._encoding.deletes, first))

    def delete_lines(self, lines: Sequence[bytes], first: int = 0) -> int:
        """Delete by JSON objects of the key columns, one in each line."""
        return self._send([self._encoding.deletes(self._encoding.key_fit().lines(lines, first), first)])

    def flush(self) -> None:
        """Wait until everything is in the log; an error says what was not."""
        self._sender.flush()

    def close(self) -> None:
        """Flush; the writer is not to be used after that."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sender.__exit__(kind, error, trace)

    def _counted(self, batches: Iterable[pa.RecordBatch], make: _Make, first: int) -> list[Records]:
        found: list[Records] = []
        for batch in batches:
            found.append(make(batch, first))
            first += len(batch)
        return found

    def _send(self, records: Sequence[Records]) -> int:
        return sum(self._sender.send(one.keys.to_pylist(), one.values.to_pylist()) for one in records)

    def _key_of(self, given: Any) -> Mapping[str, Any]:
        if isinstance(given, Mapping):
            return {name: given[name] for name in self.table.key if name in given}
        if len(self.table.key) > 1:
            raise InvalidInput(f"a key of {self.table} is a dict with {', '.join(self.table.key)}")
        return {self.table.key[0]: given}


def hot_writer(
    table: str,
    *,
    config: str | Path | Cluster | None = None,
    client: Client | None = None,
    catalog: str | CatalogConfig | None = None,
    kafka: Mapping[str, str] | None = None,
) -> Writer:
    """A writer of the hot table `namespace.name`.

    Where it is comes from `config` (a hot.yaml), else from `client` or `catalog` (its address) and from the
    environment; the table knows its brokers, `kafka` has what else a client of Kafka needs.

    >>> with hot_writer("shop.orders") as orders:  # doctest: +SKIP
    ...     orders.put([{"order_id": 1, "status": "new"}])
    ...     orders.delete([2])
    """
    cluster = config if isinstance(config, Cluster) else load_cluster(config)
    if catalog is not None:
        catalog = CatalogConfig(uri=catalog) if isinstance(catalog, str) else catalog
        cluster = replace(cluster, catalog=catalog)
    with ExitStack() as stack:
        asked = client or stack.enter_context(cluster.client())
        found = load_hot_table(asked, *identifier(table))
    return Writer(found, {**cluster.kafka, **(kafka or {})})


def key_columns(table: HotTable, given: Sequence[str]) -> list[str]:
    """The columns of its key; InvalidInput if those that are given lack one."""
    missing = [name for name in table.key if name not in given]
    if missing:
        raise InvalidInput(
            f"rows of {table} are deleted by {', '.join(table.key)}; the keys that were given lack "
            f"{', '.join(missing)} (they have {', '.join(given)})"
        )
    return list(table.key)


def _is_frame(rows: Any) -> bool:
    return type(rows).__module__.startswith("pyspark.sql")


def _batches(rows: Any, fit: Fit, first: int) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, Mapping):
        raise InvalidInput("rows are given as a list: [{…}], also if it is one")
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return fit.dicts(rows, first)
    return fit.arrow(_arrow(rows), first)


def _arrow(rows: Any) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        return _of_pandas(rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pa.table(rows)
    raise InvalidInput(
        f"rows cannot be a {type(rows).__name__}; legal: a list of dicts, a table or record batch of Arrow, "
        "a DataFrame of Spark, pandas or Polars"
    )


def _of_pandas(frame: Any) -> pa.Table:
    """An index with a name is a column. One without says which rows are left, and is none of theirs."""
    named = any(name is not None for name in frame.index.names)
    table = pa.Table.from_pandas(frame, preserve_index=named)
    return table.drop_columns([name for name in table.column_names if _INDEX.fullmatch(name)])
