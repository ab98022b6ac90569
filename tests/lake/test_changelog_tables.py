"""Tables of another writer (PyIceberg, which copies on write): all types, names of moments, the command."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from tests.lake.changing import changed, rows_of, shown

from frazil.cli.main import cli
from frazil.client import Client
from frazil.core.errors import HistoryChanged, InvalidConfig, InvalidInput, Unsupported
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.changelog import read_changes
from frazil.lake.changelog_units import TableFiles
from frazil.lake.history import TableHistory, TableSnapshot
from frazil.lake.storage import FileStorage

_numbers = itertools.count(1)
Make = Callable[..., Table]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("word", pa.string())])


@pytest.fixture(scope="module")
def shelf(frazil_sqlite: FrazilServer, client: Client) -> Catalog:
    client.namespaces.create("changes", exist_ok=True)
    return load_catalog("shelf", type="rest", uri=frazil_sqlite.catalog_uri)


@pytest.fixture
def make(shelf: Catalog) -> Make:
    return lambda schema=SCHEMA, **options: shelf.create_table(
        ("changes", f"t{next(_numbers)}"), schema, **options
    )


def words(**ids: str | None) -> pa.Table:
    found = {"id": [int(name[1:]) for name in ids], "word": list(ids.values())}
    return pa.table(found, SCHEMA)


def name_of(table: Table) -> str:
    return ".".join(table.name())


def brief(client: Client, table: Table, **options: Any) -> list[str]:
    marks = {"INSERT": "+", "DELETE": "-", "UPDATE_BEFORE": "<", "UPDATE_AFTER": ">"}
    rows = rows_of(read_changes(client, name_of(table), **options))
    return [f"{row['_change_ordinal']}{marks[row['_change_type']]}{row['id']}{row['word']}" for row in rows]


def head(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return int(snapshot.snapshot_id)


def become(table: Table, rows: pa.Table) -> None:
    """The rows of the table, in one commit, in place of all that are there."""
    table.refresh()
    old = [task.file for task in table.scan().plan_files()]
    with table.transaction() as together, together.update_snapshot().overwrite() as change:
        for file in old:
            change.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            change.append_data_file(file)


EVERYTHING = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("real", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("price", pa.decimal128(30, 4)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.time64("us")),
        pa.field("moment", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("raw", pa.binary()),
        pa.field("code", pa.binary(4)),
        pa.field("key", pa.uuid()),
        pa.field("flag", pa.bool_()),
        pa.field("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("counts", pa.map_(pa.string(), pa.float64())),
    ]
)


def full(number: int) -> dict[str, Any]:
    """Every third has no value at all; numbers are not, every second time."""
    if number % 3 == 0:
        return {"id": number}
    return {
        "id": number,
        "real": math.nan,
        "double": math.nan if number % 2 else -0.0,
        "price": Decimal(number).scaleb(-4),
        "day": date(2026, 1, number),
        "at": time(1, 2, number),
        "moment": datetime(2026, 1, number, tzinfo=UTC),
        "local": datetime(2026, 1, number),  # noqa: DTZ001 - one without a zone
        "raw": bytes([number]),
        "code": b"code",
        "key": bytes([number] * 16),
        "flag": bool(number % 2),
        "place": {"city": "x", "zip": None},
        "tags": ["a", None] if number % 2 else [],
        "counts": [("a", math.nan), ("b", None)],
    }


def test_rows_that_are_copied_did_not_change(make: Make, client: Client) -> None:
    table = make(EVERYTHING)
    table.append(pa.Table.from_pylist([full(number) for number in range(1, 20)], EVERYTHING))
    table.append(pa.Table.from_pylist([full(4), full(5)], EVERYTHING))
    before = head(table)
    table.delete("id = 5 or id = 9")
    rows = rows_of(read_changes(client, name_of(table), since=before))
    assert Counter((row["_change_type"], row["id"]) for row in rows) == {
        ("DELETE", 5): 2,
        ("DELETE", 9): 1,
    }
    (one, _), nine = [row for row in rows if row["id"] == 5], next(row for row in rows if row["id"] == 9)
    wanted = pa.Table.from_pylist([full(5), full(9)], EVERYTHING).to_pylist()
    assert [shown({name: row[name] for name in EVERYTHING.names}) for row in (one, nine)] == list(
        map(shown, wanted)
    )
    assert changed(rows)[1] == Counter()


def test_updates_and_their_net(make: Make, client: Client) -> None:
    table = make()
    table.append(words(n1="a", n2="b", n3="c"))
    first = head(table)
    become(table, words(n1="A", n2="b", n3="c", n4="d"))
    become(table, words(n1="B", n2="b", n3="c", n4="d"))
    become(table, words(n1="B", n2="b", n3="c"))
    by_id = brief(client, table, since=first, key=["id"])
    assert sorted(by_id) == ["0+4d", "0<1a", "0>1A", "1<1A", "1>1B", "2-4d"]
    assert by_id.index("0>1A") == by_id.index("0<1a") + 1
    assert sorted(brief(client, table, since=first)) == ["0+1A", "0+4d", "0-1a", "1+1B", "1-1A", "2-4d"]
    assert brief(client, table, since=first, key=["id"], net=True) == ["1<1a", "1>1B"]
    assert brief(client, table, since=head(table)) == []
    assert sorted(brief(client, table, net=True)) == ["0+2b", "0+3c", "2+1B"]
    with pytest.raises(InvalidConfig, match="there is no column 'nobody'"):
        read_changes(client, name_of(table), key=["nobody"])
    with pytest.raises(InvalidInput, match="as a list"):
        read_changes(client, name_of(table), key="id")


def test_identifier_fields_are_the_key(make: Make, client: Client) -> None:
    table = make()
    with table.update_schema() as change:
        change.set_identifier_fields("id")
    table.append(words(n1="a"))
    become(table, words(n1="b", n2="c"))
    assert sorted(brief(client, table)) == ["0+1a", "1+2c", "1<1a", "1>1b"]
    assert sorted(brief(client, table, key=())) == ["0+1a", "1+1b", "1+2c", "1-1a"]


def test_moments_and_rollbacks(make: Make, client: Client) -> None:
    table = make()
    table.append(words(n1="a"))
    table.manage_snapshots().create_tag(head(table), "report").commit()
    at = datetime.fromtimestamp(table.refresh().snapshots()[0].timestamp_ms / 1000, UTC)
    table.append(words(n2="b"))
    middle = head(table)
    table.append(words(n3="c"))
    lost = head(table)
    assert brief(client, table, since="report") == ["0+2b", "1+3c"]
    assert brief(client, table, since=at, until=middle) == ["0+2b"]
    table.manage_snapshots().rollback_to_snapshot(middle).commit()
    assert brief(client, table, since="report") == ["0+2b"]
    table.refresh().append(words(n4="d"))
    with pytest.raises(HistoryChanged, match=f"rolled back.*since={middle}"):
        read_changes(client, name_of(table), since=lost)
    assert brief(client, table, since=middle) == ["0+4d"]


def test_snapshots_between_two_that_were_kept_expired(make: Make, client: Client) -> None:
    table = make()
    table.append(words(n1="a", n2="b"))
    table.manage_snapshots().create_tag(head(table), "report").commit()
    become(table, words(n1="A", n2="b", n3="c"))
    middle = head(table)
    become(table, words(n1="B", n2="b"))
    last = head(table)
    whole = brief(client, table, since="report", key=["id"], net=True)
    table.maintenance.expire_snapshots().by_id(middle).commit()
    rows = rows_of(read_changes(client, name_of(table), since="report", key=["id"], net=True))
    assert {row["_commit_snapshot_id"] for row in rows} == {last}
    assert [text[1:] for text in whole] == ["<1a", ">1B"]
    assert [text[1:] for text in brief(client, table, since="report", key=["id"], net=True)] == ["<1a", ">1B"]
    with pytest.raises(HistoryChanged, match="--net"):
        read_changes(client, name_of(table), since="report")


def test_a_file_that_was_added_twice_has_its_rows_twice(make: Make, client: Client, tmp_path: Path) -> None:
    table, path = make(), tmp_path / "words.parquet"
    pq.write_table(words(n1="a"), path)
    table.add_files([path.as_uri()])
    first = head(table)
    table.refresh().add_files([path.as_uri()], check_duplicate_files=False)
    assert len(table.refresh().scan().to_arrow()) == 2
    assert brief(client, table, since=first) == ["0+1a"]
    become(table, words(n1="a"))
    assert brief(client, table, since=first, net=True) == []


def test_columns_of_files_of_others_are_found_after_they_were_renamed(
    make: Make, client: Client, tmp_path: Path
) -> None:
    """Files that were not written for the table have no ids, and it says what their names stand for."""
    inside = pa.struct([pa.field("city", pa.string())])
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("word", pa.string()), pa.field("places", pa.list_(inside))]
    )
    table, path = make(schema), tmp_path / "words.parquet"
    row = {"id": 1, "word": "a", "places": [{"city": "Oslo"}]}
    pq.write_table(pa.Table.from_pylist([row], schema), path)
    table.add_files([path.as_uri()])
    with table.update_schema() as change:
        change.rename_column("word", "text")
        change.rename_column("places.element.city", "town")
    wanted = {"id": 1, "text": "a", "places": [{"town": "Oslo"}]}
    assert table.refresh().scan().to_arrow().to_pylist() == [wanted]
    (found,) = rows_of(read_changes(client, name_of(table)))
    assert {name: found[name] for name in wanted} == wanted


def test_a_correction_is_told(make: Make, client: Client) -> None:
    table = make()
    table.append(words(n1="a", n2="b"))
    table.delete("id = 1", snapshot_properties={"frazil.correction": "run-7"})
    found = [
        (row["_change_type"], row["_correction"]) for row in rows_of(read_changes(client, name_of(table)))
    ]
    assert found == [("INSERT", None), ("INSERT", None), ("DELETE", "run-7")]


def test_columns_that_a_changelog_has(make: Make, client: Client) -> None:
    table = make(pa.schema([pa.field("_change_type", pa.string())]))
    with pytest.raises(Unsupported, match="rename it"):
        read_changes(client, name_of(table))


def test_a_replace_that_is_none(make: Make, client: Client) -> None:
    """A writer that calls what it did a rewrite is believed, unless rows are lacking."""
    table = make()
    table.append(words(n1="a", n2="b"))
    table.append(words(n3="c"))
    history = TableHistory(table.refresh().metadata.model_dump(by_alias=True, mode="json"))
    first, second = reversed(list(history.ancestry()))
    lying = TableSnapshot(second.id, first.id, 0, "replace", {}, second.manifest_list)
    honest = TableSnapshot(second.id, first.id, 0, "replace", {}, first.manifest_list)
    files = TableFiles(FileStorage.of("/", None), {})
    assert not files.rewrites(first, lying)
    assert files.rewrites(first, honest)


def test_what_the_command_prints(make: Make, frazil_sqlite: FrazilServer) -> None:
    """JSON that every reader takes; one head, however many commits there were."""
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("x", pa.float64()), pa.field("l", pa.list_(pa.float64()))]
    )
    table = make(schema)
    for number, value in enumerate((math.nan, math.inf, -math.inf, 0.5)):
        table.append(pa.table({"id": [number], "x": [value], "l": [[value]]}, schema))

    def run(*arguments: str) -> list[str]:
        where = (name_of(table), "--uri", frazil_sqlite.uri)
        return (
            CliRunner()
            .invoke(cli, ["changes", *where, *arguments], catch_exceptions=False)
            .output.splitlines()
        )

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    rows = [json.loads(line, parse_constant=refused) for line in run("--json")]
    assert [(row["id"], row["x"], row["l"]) for row in rows] == [
        (0, "nan", ["nan"]),
        (1, "inf", ["inf"]),
        (2, "-inf", ["-inf"]),
        (3, 0.5, [0.5]),
    ]
    lines = [line.split() for line in run()]
    assert [(line[0], *line[2:]) for line in lines] == [
        ("CHANGE", "ID", "X", "L"),
        ("INSERT", "0", "nan", '["nan"]'),
        ("INSERT", "1", "inf", '["inf"]'),
        ("INSERT", "2", "-inf", '["-inf"]'),
        ("INSERT", "3", "0.5", "[0.5]"),
    ]


def test_the_command(make: Make, frazil_sqlite: FrazilServer) -> None:
    table = make()
    table.append(words(n1="a", n2=None))
    first = head(table)
    become(table, words(n1="A", n2=None))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(
            cli, ["changes", name_of(table), *arguments, "--uri", frazil_sqlite.uri], catch_exceptions=False
        )

    lines = run("--key", "id", "--json").output.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["_change_type"], row["id"], row["word"]) for row in rows] == [
        ("INSERT", 1, "a"),
        ("INSERT", 2, None),
        ("UPDATE_BEFORE", 1, "a"),
        ("UPDATE_AFTER", 1, "A"),
    ]
    assert datetime.fromisoformat(rows[0]["_commit_timestamp"]).tzinfo is not None
    shown_lines = run("--since", str(first), "--key", "id", "--net").output.split("\n")
    assert shown_lines[0].split() == ["CHANGE", "SNAPSHOT", "ID", "WORD"]
    assert [line.split()[0] for line in shown_lines[1:3]] == ["UPDATE_BEFORE", "UPDATE_AFTER"]
    nothing = run("--since", str(head(table)))
    assert nothing.output == "no row changed\n"
