"""SQL over both tiers: tables are found in the text, pinned together, and given to DuckDB or to Spark."""

from __future__ import annotations

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
from frazil.hot.read.predicates import conditions, parsed
from frazil.hot.table import table_name
from frazil.lake.data_rows import Columns

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

#: A setting of Spark's: what times without a zone are in.
ZONE = "spark.sql.session.timeZone"
#: Of columns while DuckDB is asked which of them it needs.
_MARK = "frazil_c{table}_{column}_"
#: What a column says that was not.
_UNREAD = "frazil did not read this column"


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
        """None: there is no table of that name. However it is written, it is the same one."""
        if name not in self.found:
            found = self._pinned(name)
            other = self.named().get(name.lower())
            if found is not None and other is not None:
                if found.pins.uuid != other.pins.uuid:
                    raise InvalidInput(
                        f"the query names the tables {other} and {name}, which SQL does not tell apart: name "
                        "one of them in a query, or rename it"
                    )
                found = other
            self.found[name] = found
        return self.found[name]

    def named(self) -> dict[str, Pinned]:
        """Each once, in lower case: so the engines look for views."""
        return {name.lower(): one for name, one in self.found.items() if one is not None}

    def _pinned(self, name: str) -> Pinned | None:
        known = next((pins for table, pins in self.given.items() if table.lower() == name.lower()), None)
        if known is not None:
            return opened(self.client, known, kafka=self.kafka)
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

    `fresh` and `max_lag` as for `frazil.pin`; with `pins`, which say of when the answer is, they say nothing.

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
                pieces += [text[done : names[0].start], syntax.quoted(name.lower())]
                done = names[count - 1].end
                break
    return "".join([*pieces, text[done:]])


def _by_duckdb(text: str, tables: Tables) -> pa.Table:
    duckdb = _duckdb()
    wanted = rewritten(text, tables, DUCKDB)
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        # As Spark's sessions have it: days and hours are not those of the machine.
        connection.execute("SET TimeZone = 'UTC'")
        # Tables are those of the catalog, never variables of this program that have such a name.
        connection.execute("SET python_enable_replacements = false")
        try:
            _require_query(connection.extract_statements(wanted), duckdb.StatementType.SELECT)
            views = [_View(*one, number) for number, one in enumerate(tables.named().items())]
            needed = _needed(connection, wanted, views)
            try:
                return _answer(connection, wanted, tables, views, needed)
            except duckdb.Error as error:
                if _UNREAD not in str(error):
                    raise
            # It looks at more than its plan told of.
            return _answer(connection, wanted, tables, views, {})
        except duckdb.Error as error:
            raise InvalidInput(f"DuckDB does not take the query: {error}") from None


class _View:
    """A table as the query sees it: with all of its columns, whichever of them are read.

    Stars, positions and joins by equal names mean the same columns then. One that was not read is an error
    for whoever looks at its values, and never a wrong answer.
    """

    def __init__(self, name: str, found: Pinned, number: int) -> None:
        self.name, self.found = name, found
        self.schema = Schema.from_json(pinned_schema(found), str(found))
        self.empty = pa.Table.from_batches([], Columns(self.schema).fitter.schema)
        names = [name.lower() for name in self.empty.column_names]
        #: Columns of which DuckDB would take the first one for any of them.
        self.alike = [name for name in self.empty.column_names if names.count(name.lower()) > 1]
        self._rows = f"frazil_t{number}"
        #: What DuckDB's plans call the columns: names that occur nowhere else.
        self.marks = {
            name: _MARK.format(table=number, column=column)
            for column, name in enumerate(self.empty.column_names)
        }

    def show(self, connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> None:
        """`rows`: in the columns that were read."""
        read = {name: self.marks[name] for name in rows.column_names}
        columns = []
        for name, kind in zip(self.empty.column_names, connection.from_arrow(self.empty).types, strict=True):
            value = read.get(name) or f"CAST(error('{_UNREAD}') AS {kind})"
            columns.append(f"{value} AS {DUCKDB.quoted(name)}")
        connection.register(self._rows, rows.rename_columns(list(read.values())))
        body = f"SELECT {', '.join(columns)} FROM {self._rows}"  # noqa: S608 - names are quoted
        connection.execute(f"CREATE OR REPLACE VIEW {DUCKDB.quoted(self.name)} AS {body}")


def _answer(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    tables: Tables,
    views: Sequence[_View],
    columns: Mapping[str, Sequence[str]],
) -> pa.Table:
    tree = parsed(connection, text)
    for view in views:
        where = conditions(tree, view.name, view.schema)
        wanted = columns.get(view.name)
        union = Union(view.found, tables.client, tables.kafka, columns=wanted, where=where)
        view.show(connection, union.table())
    return connection.execute(text).to_arrow_table()


def _needed(connection: duckdb.DuckDBPyConnection, text: str, views: Sequence[_View]) -> dict[str, list[str]]:
    """The columns that the query reads of each table, as DuckDB plans it with empty ones; none: all."""
    duckdb = _duckdb()
    for view in views:
        view.show(connection, view.empty)
    try:
        told = connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall()
    except duckdb.Error:
        # The error quotes what failed: that is to be the query.
        connection.execute(text)
        return {}
    plan = "".join(str(row[-1]) for row in told)
    found = {}
    for view in views:
        needed = [name for name, mark in view.marks.items() if mark in plan]
        if not {*needed}.isdisjoint(view.alike):
            raise InvalidInput(
                f"the table {view.found} has the columns {', '.join(view.alike)}, which SQL does not tell "
                "apart: leave them out of the query, or rename one of them"
            )
        # Something has to tell how many rows there are.
        found[view.name] = needed or view.empty.column_names[:1]
    return found


def _by_spark(text: str, tables: Tables, spark: SparkSession) -> pa.Table:
    return query_frame(text, tables, spark).toArrow()


def query_frame(text: str, tables: Tables, spark: SparkSession) -> DataFrame:
    """What Spark would answer; the tables are pinned, and tails read, when this returns."""
    from pyspark.errors import AnalysisException, ParseException

    from frazil.hot.read.spark import union_frame
    from frazil.stream.frames import require_query

    session = spark.newSession()
    # A new one has what all began with, not what the caller has set since.
    session.conf.set(ZONE, str(spark.conf.get(ZONE)))
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
