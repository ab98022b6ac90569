"""Flink's own catalogs, as the SQL Gateway shows them and as the user's DDL file tells them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from frazil.core.errors import FrazilError, InvalidConfig
from frazil.lineage.flink.gateway import Gateway, Refused
from frazil.lineage.flink.resolve.ddl import Script, TableDef, parse_script, parse_table
from frazil.lineage.flink.resolve.found import Found, found_table
from frazil.lineage.flink.resolve.platforms import Named, Unclear, of_catalog, of_table
from frazil.lineage.model import Evidence

T = TypeVar("T")
#: Which refusals of a statement are its answer.
_ALWAYS, _NEVER = re.compile(""), re.compile("(?!)")
_NO_TABLE = re.compile(
    r"(?is)\b(?:table|view|database|namespace)\b.*(?:not exist|not found)|NotExistException|is a view"
)
TablePath = tuple[str, ...]


class GatewayCatalogs:
    """What the gateway's session can see; each thing is asked once.

    A gateway that does not answer is reported once and then left alone.
    """

    #: Whether all that was asked was answered: else there may be more tables than are known.
    whole = True

    def __init__(self, gateway: Gateway, failed: Callable[[str], None]) -> None:
        self._gateway = gateway
        self._failed = failed
        self._broken = False
        self._lock = threading.RLock()
        self._visible: list[str] | None = None
        self._kinds: dict[str, Mapping[str, str]] = {}
        self._tables: dict[TablePath, TableDef | None] = {}
        self._by_name: dict[str, list[TablePath]] | None = None

    def catalogs(self) -> list[str]:
        with self._lock:
            if self._visible is None:
                self._visible = self._listed(self._gateway.catalogs)
            return self._visible

    def kind(self, catalog: str) -> Mapping[str, str]:
        """Type and options of a catalog; empty where they cannot be had (before 1.20, the built-in one)."""
        with self._lock:
            if catalog not in self._kinds:
                visible = catalog in self.catalogs()
                self._kinds[catalog] = (
                    self._asked(lambda: self._gateway.describe_catalog(catalog), {}) if visible else {}
                )
            return self._kinds[catalog]

    def table(self, path: TablePath) -> TableDef | None:
        with self._lock:
            if path not in self._tables:
                self._tables[path] = self._read(path) if path[0] in self.catalogs() else None
            return self._tables[path]

    def named(self, table: str) -> list[TablePath]:
        """The tables of that name in all catalogs."""
        with self._lock:
            if self._by_name is None:
                self._by_name = {}
                for path in self.all_tables():
                    self._by_name.setdefault(path[-1], []).append(path)
            return self._by_name.get(table, [])

    def all_tables(self) -> list[TablePath]:
        """Every table of every catalog."""
        found: list[TablePath] = []
        for catalog in self.catalogs():
            for database in self._listed(partial(self._gateway.databases, catalog)):
                names = self._listed(partial(self._gateway.tables, catalog, database))
                found += [(catalog, database, name) for name in names]
        return found

    def _read(self, path: TablePath) -> TableDef | None:
        text = self._asked(lambda: self._gateway.create_table(*path), None, _NO_TABLE)
        try:
            return None if text is None else parse_table(text)
        except (ValueError, IndexError):
            # A view, or a form that is not known: it tells nothing.
            return None

    def _listed(self, ask: Callable[[], list[str]]) -> list[str]:
        """A list that is refused is not an empty one."""
        return self._asked(ask, [], _NEVER)

    def _asked(self, ask: Callable[[], T], otherwise: T, answers: re.Pattern[str] = _ALWAYS) -> T:
        """Refusals like `answers` are one, such as no such table, or no such statement.

        Anything else is reported: what the catalog itself asks may be away.
        """
        if self._broken:
            return otherwise
        try:
            return ask()
        except Refused as error:
            if not answers.search(error.reason):
                self.whole = False
                self._failed(error.message)
            return otherwise
        except FrazilError as error:
            self._broken, self.whole = True, False
            self._failed(error.message)
            return otherwise


class ScriptCatalogs:
    """The same from a file of statements."""

    whole = True

    def __init__(self, script: Script) -> None:
        self._script = script

    def kind(self, catalog: str) -> Mapping[str, str]:
        return self._script.catalogs.get(catalog, {})

    def table(self, path: TablePath) -> TableDef | None:
        return self._script.tables.get(path)

    def named(self, table: str) -> list[TablePath]:
        return [path for path in self._script.tables if path[-1] == table]


def read_script(file: str | None) -> ScriptCatalogs | None:
    """The user's DDL file, if one is set."""
    if file is None:
        return None
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"ddl_file: {file} cannot be read: {error}") from None
    return ScriptCatalogs(parse_script(text, file))


def by_catalog(known: GatewayCatalogs | ScriptCatalogs, path: TablePath) -> Found | Unclear | None:
    """What a table is: by its catalog's type, if the table is really in it, else by its own definition.

    A temporary table may be called anything, in any catalog. Only the session that made it sees it.
    """
    described, table = known.kind(path[0]), known.table(path)
    named = of_catalog(described.get("type", ""), described, path)
    if isinstance(known, ScriptCatalogs):
        # A file need not list a catalog's tables. Those that name a connector are temporary ones.
        temporary = table is not None and "connector" in table.options
        return _told(path, None if temporary else named, table, "ddl", described)
    if named is not None and table is None:
        return Unclear(
            f"the SQL Gateway finds no such table in the catalog {path[0]}: "
            "it was dropped, or is a temporary one of the job's own session"
        )
    return _told(path, named, table, "gateway", described)


def _told(
    path: TablePath, named: Named | None, table: TableDef | None, kind: str, described: Mapping[str, str]
) -> Found | Unclear | None:
    if named is not None:
        detail = f"catalog {path[0]} is of type {described['type']}"
        return found_table(named, table, Evidence(kind, detail), path[0])
    if table is None:
        return None
    told = of_table(table.options, path)
    if told is None or isinstance(told, Unclear):
        return told
    statement = "CREATE TABLE" if kind == "ddl" else "SHOW CREATE TABLE"
    return found_table(told, table, Evidence(kind, f"{statement} {'.'.join(path)}"), path[0])
