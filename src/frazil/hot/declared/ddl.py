"""Hot tables in the SQL of Flink, as Fluss's guides have them.

    CREATE TABLE [IF NOT EXISTS] [[catalog.]database.]name (column type …, PRIMARY KEY (…) NOT ENFORCED)
    [COMMENT '…'] [PARTITIONED BY (…)] [WITH ('key' = 'value', …)]

Beside it `USE database`, `CREATE DATABASE`, and `CREATE CATALOG`, `USE CATALOG` and `SET`, which change
nothing here: the configuration says where tables are.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.core.errors import InvalidInput
from frazil.core.partitioning import PartitionField
from frazil.core.schema import Field, Schema
from frazil.hot.declared.ddl_parser import Parser
from frazil.hot.declared.ddl_types import read_type
from frazil.hot.declared.declaration import Declaration, split_options
from frazil.hot.table import EVENT_TIME

#: Where tables are that name no database.
DEFAULT_DATABASE = "default"
#: With its catalog, `catalog.database.table`.
_WHOLE = 3
_LEGAL = "CREATE TABLE, CREATE DATABASE, USE, CREATE CATALOG, USE CATALOG, SET"
_CLAUSES = {
    "LIKE": "a table is declared with all of its columns; copy them",
    "AS": "a table begins empty; put rows into it afterwards",
    "DISTRIBUTED": "write the number of buckets as the option 'bucket.num'",
}


@dataclass(frozen=True)
class Statement:
    """One CREATE TABLE."""

    table: Declaration
    if_not_exists: bool
    #: `file:line`
    place: str


@dataclass(frozen=True)
class Script:
    """What a file asks for."""

    tables: tuple[Statement, ...]
    #: Of CREATE DATABASE.
    databases: tuple[str, ...] = ()
    #: Statements that mean nothing here, each once and without its values, which may be secrets.
    ignored: tuple[str, ...] = ()


@dataclass
class _Columns:
    fields: list[Field]
    key: tuple[str, ...] = ()
    #: Columns that are said to take nulls.
    nullable: tuple[str, ...] = ()


def parse_ddl(text: str, source: str = "SQL", namespace: tuple[str, ...] = (DEFAULT_DATABASE,)) -> Script:
    """The tables of a script; InvalidConfig names line and column.

    `namespace`: where tables are that name no database before the first `USE`.

    >>> script = parse_ddl("CREATE TABLE shop.orders (id BIGINT, PRIMARY KEY (id) NOT ENFORCED)")
    >>> str(script.tables[0].table), script.tables[0].table.key
    ('shop.orders', ('id',))
    """
    return _Reader(Parser(text, source), namespace).script()


class _Reader:
    def __init__(self, parser: Parser, namespace: tuple[str, ...]) -> None:
        self._parser = parser
        self._namespace = namespace
        self._tables: list[Statement] = []
        self._databases: list[str] = []
        self._ignored: list[str] = []

    def script(self) -> Script:
        parser = self._parser
        while not parser.ended:
            if parser.take_mark(";"):
                continue
            self._statement()
            if parser.peek().kind != "end" and not parser.take_mark(";"):
                parser.fail(f"expected ';' or the end of the statement, found {parser.peek()}")
        return Script(tuple(self._tables), tuple(self._databases), tuple(dict.fromkeys(self._ignored)))

    def _statement(self) -> None:
        parser = self._parser
        at = parser.here
        if parser.take_words("USE", "CATALOG"):
            self._ignored.append(f"USE CATALOG {parser.name('the name of a catalog')}")
        elif parser.take_words("CREATE", "CATALOG"):
            self._catalog()
        elif parser.take_words("USE"):
            self._namespace = (parser.path("the name of a database")[-1],)
        elif parser.take_words("SET"):
            self._ignored.append(f"SET '{parser.text('the name of a setting')}'")
            parser.mark("=")
            parser.text("its value")
        elif parser.take_words("CREATE", "DATABASE"):
            self._database()
        elif parser.take_words("CREATE", "TABLE"):
            self._tables.append(self._table(at))
        elif parser.sees("CREATE", "TEMPORARY"):
            parser.fail("a hot table is never temporary: write CREATE TABLE")
        else:
            parser.fail(f"{parser.peek()} begins no statement that is known here. Legal: {_LEGAL}")

    def _catalog(self) -> None:
        parser = self._parser
        parser.take_words("IF", "NOT", "EXISTS")
        self._ignored.append(f"CREATE CATALOG {parser.name('the name of a catalog')}")
        if parser.take_words("COMMENT"):
            parser.text("a comment")
        if parser.take_words("WITH"):
            self._options()

    def _database(self) -> None:
        parser = self._parser
        parser.take_words("IF", "NOT", "EXISTS")
        self._databases.append(parser.path("the name of a database")[-1])
        if parser.take_words("COMMENT"):
            parser.text("a comment")
        if parser.sees("WITH"):
            parser.fail("databases have no options here; leave WITH out")

    def _table(self, at: int) -> Statement:
        parser = self._parser
        if_not_exists = parser.take_words("IF", "NOT", "EXISTS")
        named = parser.here
        namespace, name = self._name()
        columns = self._columns()
        comment, partitioning, options = self._clauses()
        for column in columns.key:
            if column in columns.nullable:
                parser.fail(
                    f"column '{column}' is of the primary key, and said to be NULL; leave NULL out", named
                )
        try:
            own, properties, version = split_options(options)
            table = Declaration(
                namespace,
                name,
                Schema(tuple(columns.fields)),
                columns.key,
                partitioning,
                own,
                properties,
                comment,
                version,
            )
        except InvalidInput as error:
            parser.fail(f"table {name}: {error.message}", named)
        return Statement(table, if_not_exists, parser.place(at))

    def _name(self) -> tuple[tuple[str, ...], str]:
        at = self._parser.here
        parts = self._parser.path("the name of a table")
        if len(parts) > _WHOLE:
            self._parser.fail("a table is named as table, database.table or catalog.database.table", at)
        return (self._namespace if len(parts) == 1 else (parts[-2],)), parts[-1]

    def _columns(self) -> _Columns:
        parser = self._parser
        found = _Columns([])
        if not parser.take_mark("("):
            parser.fail(_CLAUSES.get(parser.peek().text.upper(), "expected '(' and the columns of the table"))
        while not parser.take_mark(")"):
            self._element(found)
            if not parser.take_mark(","):
                parser.mark(")")
                break
        return found

    def _element(self, found: _Columns) -> None:
        parser = self._parser
        if parser.sees("WATERMARK", "FOR"):
            parser.fail(
                "a hot table delays nothing: set watermarks where it is read. Which event time has reached "
                f"Iceberg is told of the column that the option '{EVENT_TIME}' names"
            )
        if parser.take_words("CONSTRAINT"):
            parser.name("the name of the constraint")
            if not parser.sees("PRIMARY", "KEY"):
                parser.fail("a constraint is PRIMARY KEY (…) NOT ENFORCED, no other")
        if parser.sees("UNIQUE"):
            parser.fail("a table has one PRIMARY KEY and no other unique columns")
        if parser.take_words("PRIMARY", "KEY"):
            self._set_key(found, self._names("a column of the primary key"))
            return
        self._column(found)

    def _column(self, found: _Columns) -> None:
        parser = self._parser
        name = parser.name("the name of a column")
        if parser.sees("AS"):
            parser.fail(
                f"column '{name}' is computed, which hot tables do not do: compute it where it is read"
            )
        if parser.sees("METADATA"):
            self._metadata(name)
        kind, said = read_type(parser)
        if parser.sees("METADATA"):
            self._metadata(name)
        while True:
            if parser.take_words("CONSTRAINT"):
                parser.name("the name of the constraint")
            elif parser.take_words("PRIMARY", "KEY"):
                self._set_key(found, (name,))
            else:
                break
        comment = parser.text("a comment") if parser.take_words("COMMENT") else None
        found.fields.append(Field(name, kind, bool(said), comment))
        if said is False:
            found.nullable += (name,)

    def _metadata(self, name: str) -> None:
        self._parser.fail(f"column '{name}' is metadata, of which hot tables have no columns; leave it out")

    def _set_key(self, found: _Columns, names: tuple[str, ...]) -> None:
        parser = self._parser
        if found.key:
            parser.fail("there is a primary key already")
        if not parser.take_words("NOT", "ENFORCED"):
            parser.fail(
                "write NOT ENFORCED behind PRIMARY KEY, as Flink wants it: nothing is refused, a row "
                "replaces the one that has its key"
            )
        found.key = names

    def _names(self, what: str) -> tuple[str, ...]:
        parser = self._parser
        parser.mark("(")
        names = [parser.name(what)]
        while parser.take_mark(","):
            names.append(parser.name(what))
        parser.mark(")")
        return tuple(names)

    def _clauses(self) -> tuple[str | None, tuple[PartitionField, ...], dict[str, str]]:
        parser = self._parser
        comment = parser.text("a comment") if parser.take_words("COMMENT") else None
        if parser.sees("DISTRIBUTED"):
            parser.fail(_CLAUSES["DISTRIBUTED"])
        names = self._names("a column") if parser.take_words("PARTITIONED", "BY") else ()
        options = self._options() if parser.take_words("WITH") else {}
        following = parser.peek().text.upper()
        if parser.peek().kind == "word" and following in _CLAUSES:
            parser.fail(_CLAUSES[following])
        return comment, tuple(PartitionField(name, "identity", name) for name in names), options

    def _options(self) -> dict[str, str]:
        parser = self._parser
        parser.mark("(")
        found: dict[str, str] = {}
        while True:
            at = parser.here
            name = parser.text("the name of an option")
            if name in found:
                parser.fail(f"the option '{name}' is there twice", at)
            parser.mark("=")
            found[name] = parser.text("its value")
            if not parser.take_mark(","):
                break
        parser.mark(")")
        return found
