"""SQL over both tiers: tables are found in the text, pinned together, and given to DuckDB or to Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import InvalidInput, Unsupported
from frazil.core.schema import Schema
from frazil.hot.read.arrow import Union
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.names import DUCKDB, SPARK, SPARK_DOUBLE_QUOTED, Syntax
from frazil.hot.read.pins import Pinned, Pins, opened, pinned, pinned_schema
from frazil.hot.read.predicates import equalities, parsed
from frazil.hot.table import table_name
from frazil.lake.data_rows import Columns

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

#: Of columns while DuckDB is asked which of them it needs.
_MARK = "frazil_c{table}_{column}_"
#: Not DESCRIBE and the like, which tell of columns without reading them.
_QUERY = re.compile(r"\W*(select|with|from)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    rows: pa.Table
    #: Of every table that was read: with them the same query gives the same answer.
    pins: tuple[Pins, ...]


@dataclass
class Tables:
    """The tables that a query names, each pinned once."""

    client: Client
    given: Mapping[str, Pins] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    fresh: bool = True
    max_lag: float | None = None
    found: dict[str, Pinned | None] = field(default_factory=dict)

    def get(self, name: str) -> Pinned | None:
        """None: there is no table of that name."""
        if name not in self.found:
            self.found[name] = self._pinned(name)
        return self.found[name]

    def named(self) -> dict[str, Pinned]:
        return {name: one for name, one in self.found.items() if one is not None}

    def _pinned(self, name: str) -> Pinned | None:
        if name in self.given:
            return opened(self.client, self.given[name], kafka=self.kafka)
        try:
            there = self.client.tables.exists(*table_name(name))
        except InvalidInput:
            return None
        if there and self.given:
            raise InvalidInput(
                f"the table {name} is not among the pins that were given ({', '.join(self.given)}): leave "
                "them out, or give those of all tables"
            )
        if not there:
            return None
        return pinned(self.client, name, kafka=self.kafka, max_lag=self.max_lag, fresh=self.fresh)


def query(
    text: str,
    *,
    pins: Iterable[Pins | str] = (),
    fresh: bool = True,
    max_lag: float | None = None,
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
    spark: SparkSession | None = None,
) -> Answer:
    """The answer to a query over tables of the catalog, hot or not, by DuckDB, or by `spark` if it is given.

    `fresh` and `max_lag` as for `frazil.pin`.

    >>> query("SELECT sum(amount) FROM shop.orders").rows.to_pylist()  # doctest: +SKIP
    [{'sum(amount)': Decimal('1200.50')}]
    """
    given = {one.table: one for one in (Pins.decode(p) if isinstance(p, str) else p for p in pins)}
    with connected(catalog, spark) as client:
        tables = Tables(client, given, kafka or {}, fresh, max_lag)
        rows = _by_duckdb(text, tables) if spark is None else _by_spark(text, tables, spark)
    return Answer(rows, tuple(one.pins for one in tables.named().values()))


def rewritten(text: str, tables: Tables, syntax: Syntax) -> str:
    """The query with the names of tables as one quoted name each; all else stays as it is."""
    pieces, done = [], 0
    for names in syntax.names(text):
        for count in range(len(names), 0, -1):
            name = ".".join(one.text for one in names[:count])
            if "." in name and tables.get(name) is not None:
                pieces += [text[done : names[0].start], syntax.quoted(name)]
                done = names[count - 1].end
                break
    return "".join([*pieces, text[done:]])


def _by_duckdb(text: str, tables: Tables) -> pa.Table:
    duckdb = _duckdb()
    wanted = rewritten(text, tables, DUCKDB)
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        try:
            _require_query(connection.extract_statements(wanted), duckdb.StatementType.SELECT)
            try:
                return _answer(connection, wanted, tables, _needed(connection, wanted, tables.named()))
            except duckdb.BinderException:
                # It names columns that it then has no need of; or they are not there, which is said now.
                return _answer(connection, wanted, tables, {})
        except duckdb.Error as error:
            raise InvalidInput(f"DuckDB does not take the query: {error}") from None


def _answer(
    connection: duckdb.DuckDBPyConnection, text: str, tables: Tables, columns: Mapping[str, Sequence[str]]
) -> pa.Table:
    tree = parsed(connection, text)
    for number, (name, found) in enumerate(tables.named().items()):
        where = equalities(tree, name, Schema.from_json(pinned_schema(found), str(found))) or None
        union = Union(found, tables.client, tables.kafka, columns=columns.get(name), where=where)
        rows = union.table()
        connection.register(f"frazil_t{number}", rows)
        view = DUCKDB.quoted(name)
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM frazil_t{number}")  # noqa: S608
    return connection.execute(text).to_arrow_table()


def _needed(
    connection: duckdb.DuckDBPyConnection, text: str, tables: Mapping[str, Pinned]
) -> dict[str, list[str]]:
    """The columns that the query reads of each table, as DuckDB plans it; none: all.

    The plan is of empty tables whose columns have names that occur nowhere else: what it needs, it names.
    """
    if _QUERY.match(text) is None:
        return {}
    schemas = [
        Columns(Schema.from_json(pinned_schema(one), str(one))).fitter.schema for one in tables.values()
    ]
    for number, (name, schema) in enumerate(zip(tables, schemas, strict=True)):
        marks = [_MARK.format(table=number, column=column) for column in range(len(schema))]
        connection.register(f"frazil_t{number}", pa.Table.from_batches([], schema).rename_columns(marks))
        pairs = zip(marks, schema.names, strict=True)
        renamed = ", ".join(f"{mark} AS {DUCKDB.quoted(column)}" for mark, column in pairs)
        view = DUCKDB.quoted(name)
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT {renamed} FROM frazil_t{number}")  # noqa: S608
    plan = "".join(str(row[-1]) for row in connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall())
    found = {}
    for number, (name, schema) in enumerate(zip(tables, schemas, strict=True)):
        needed = [
            column
            for index, column in enumerate(schema.names)
            if _MARK.format(table=number, column=index) in plan
        ]
        found[name] = needed or schema.names[:1]
    return found


def _by_spark(text: str, tables: Tables, spark: SparkSession) -> pa.Table:
    return query_frame(text, tables, spark).toArrow()


def query_frame(text: str, tables: Tables, spark: SparkSession) -> DataFrame:
    """What Spark would answer; the tables are pinned, and tails read, when this returns."""
    from pyspark.errors import AnalysisException, ParseException

    from frazil.hot.read.spark import union_frame
    from frazil.stream.frames import require_query

    session = spark.newSession()
    wanted = rewritten(text, tables, _spark_syntax(session))
    try:
        require_query(session, wanted)
        for name, found in tables.named().items():
            frame = union_frame(session, tables.client, found, tables.kafka)
            frame.createOrReplaceTempView(SPARK.quoted(name))
        return session.sql(wanted)
    except (AnalysisException, ParseException) as error:
        said = str(error).strip().splitlines()[0]
        raise InvalidInput(f"Spark does not take the query: {said}") from None


def _spark_syntax(spark: SparkSession) -> Syntax:
    # The setting says something only where Spark follows the standard.
    asked = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
    return SPARK_DOUBLE_QUOTED if all(str(spark.conf.get(one)).lower() == "true" for one in asked) else SPARK


def _require_query(statements: Sequence[Any], select: Any) -> None:
    if [one.type for one in statements] != [select]:
        raise InvalidInput("one query is wanted (SELECT …), which changes nothing")


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise Unsupported(
            "SQL without Spark needs DuckDB, which is not installed: pip install 'frazil[sql]', or let Spark "
            "answer (--engine spark)"
        ) from None
    return duckdb
