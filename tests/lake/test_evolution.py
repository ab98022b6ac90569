"""Tables whose schema grows, also while others change it."""

from __future__ import annotations

import itertools
import threading

import pytest
from tests.client.faulty import Fault, Reply
from tests.lake.network import Accident, CommitNetwork
from tests.lake.support import Reader, commit, first, foreign_append

from frazil.core.errors import Unprocessable
from frazil.core.schema import Field, Schema, SchemaChange, parse_type, show_type
from frazil.lake.catalog import Lake
from frazil.lake.evolution import evolved
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

_numbers = itertools.count(1)
COLUMNS = {
    "id": "long",
    "n": "int",
    "f": "float",
    "price": "decimal(9, 2)",
    "name": "string",
    "address": "struct<street: string, place: struct<x: float>>",
    "tags": "list<struct<q: int>>",
    "marks": "map<struct<k: int>, struct<v: int>>",
    "counts": "map<string, list<int>>",
}
SCHEMA = Schema(tuple(Field(name, parse_type(kind)) for name, kind in COLUMNS.items())).with_fresh_ids()


def add(path: str, kind: str) -> SchemaChange:
    return SchemaChange(tuple(path.split(".")), parse_type(kind))


def widen(path: str, kind: str) -> SchemaChange:
    return SchemaChange(tuple(path.split(".")), parse_type(kind), widens=True)


CHANGES = [
    add("note", "string"),
    add("deep", "struct<a: list<struct<b: uuid>>, m: map<string, fixed[4]>>"),
    add("address.zip", "string"),
    add("address.place.y", "double"),
    add("tags.element.w", "list<string>"),
    add("marks.value.t", "timestamptz"),
    widen("n", "long"),
    widen("f", "double"),
    widen("price", "decimal(38, 2)"),
    widen("address.place.x", "double"),
    widen("tags.element.q", "long"),
    widen("counts.value.element", "long"),
]
GROWN = {
    "id": "long",
    "n": "long",
    "f": "double",
    "price": "decimal(38, 2)",
    "name": "string",
    "address": "struct<street: string, place: struct<x: double, y: double>, zip: string>",
    "tags": "list<struct<q: long, w: list<string>>>",
    "marks": "map<struct<k: int>, struct<v: int, t: timestamptz>>",
    "counts": "map<string, list<long>>",
    "note": "string",
    "deep": "struct<a: list<struct<b: uuid>>, m: map<string, fixed[4]>>",
}


def shown(schema: Schema) -> dict[str, str]:
    return {field.name: show_type(field.type) for field in schema}


@pytest.fixture
def grown(lake: Lake) -> LakeTable:
    return lake.create(("evolution",), f"t{next(_numbers)}", SCHEMA)


def test_all_that_iceberg_can(grown: LakeTable) -> None:
    before = grown.metadata.metadataFileLocation()
    ids = {field.name: field.id for field in grown.schema}
    grown.evolve(CHANGES)
    assert shown(grown.schema) == GROWN
    assert {name: grown.schema.field(name).id for name in ids} == ids
    fresh = grown.lake.load(grown.namespace, grown.name)
    assert fresh.schema == grown.schema
    log = fresh.metadata.previousFiles()
    assert [entry.file() for entry in log] == [before], "one commit"
    grown.evolve(CHANGES)
    assert grown.lake.load(grown.namespace, grown.name).metadata.previousFiles().size() == 1


def test_what_is_there_is_fine() -> None:
    """Also if it is wider than asked for, or holds more."""
    wanted = [
        add("id", "int"),
        add("price", "decimal(5, 2)"),
        add("tags", "list<struct<q: int>>"),
        add("address", "struct<street: string>"),
        add("marks.key", "struct<k: int>"),
        widen("id", "long"),
    ]
    assert evolved(SCHEMA, wanted) == SCHEMA


def test_a_column_that_was_made_narrower_or_smaller_than_asked_for() -> None:
    wanted = [add("n", "long"), add("tags", "list<struct<q: long, w: string>>")]
    found = shown(evolved(SCHEMA, wanted))
    assert (found["n"], found["tags"]) == ("long", "list<struct<q: long, w: string>>")


def test_changes_that_build_on_each_other() -> None:
    wanted = [
        add("new", "struct<a: int>"),
        add("new.b", "string"),
        widen("new.a", "long"),
        add("new.b", "string"),
    ]
    assert shown(evolved(SCHEMA, wanted))["new"] == "struct<a: long, b: string>"


REFUSED = {
    "another type": (widen("name", "long"), "'name' is string and cannot become long"),
    "an existing column": (add("name", "int"), "cannot become int"),
    "narrower and wider": (widen("price", "decimal(9, 4)"), "decimals of the same scale"),
    "a struct for a number": (add("n", "struct<a: int>"), "'n' is int and cannot become struct<a: int>"),
    "a key": (widen("marks.key.k", "long"), "the keys of a map cannot change"),
    "a field of a key": (add("marks.key.l", "long"), "the keys of a map cannot change"),
    "no such column": (widen("nope", "long"), "there is no 'nope'"),
    "no such parent": (add("nope.a", "long"), "there is no 'nope'; there are: id, n"),
    "inside a number": (add("n.a", "long"), "'n' is int, in which there is no 'a'"),
    "only by case": (add("Name", "string"), "differ from it by case only"),
    "only by case, nested": (add("address.Street", "string"), "'address.Street' beside 'street'"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(change: SchemaChange, words: str) -> None:
    with pytest.raises(Unprocessable, match=words):
        evolved(SCHEMA, [change])


def test_a_refused_change_changes_nothing(grown: LakeTable) -> None:
    with pytest.raises(Unprocessable):
        grown.evolve([add("note", "string"), widen("name", "long")])
    assert shown(grown.lake.load(grown.namespace, grown.name).schema) == COLUMNS


def test_names_with_dots(grown: LakeTable) -> None:
    grown.evolve([SchemaChange(("a.b",), "string"), SchemaChange(("address", "c.d"), "int")])
    grown.evolve([SchemaChange(("a.b",), "string"), SchemaChange(("address", "c.d"), "long", widens=True)])
    assert shown(grown.schema)["a.b"] == "string"
    assert shown(grown.schema)["address"].endswith("`c.d`: long>")


def test_many_at_the_same_moment(grown: LakeTable) -> None:
    """Each wants one column of its own and one that all want."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        own = grown.lake.load(grown.namespace, grown.name)
        try:
            own.evolve([add("shared", "string"), add(f"own{number}", "int"), widen("n", "long")])
            assert {"shared", f"own{number}"} <= set(shown(own.schema))
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    grown.refresh()
    assert sorted(shown(grown.schema)) == sorted([*COLUMNS, "shared", "own0", "own1", "own2", "own3"])


ACCIDENTS = {
    "lost answer": Accident(Fault.LOSE),
    "never sent": Accident(Fault.DROP),
    "503, done": Accident(Reply(503, b"{}"), arrives=True),
    "503, not done": Accident(Reply(503, b"{}")),
}


@pytest.mark.parametrize("accident", ACCIDENTS.values(), ids=ACCIDENTS.keys())
def test_an_unknown_outcome(
    accident: Accident, grown: LakeTable, far_lake: Lake, network: CommitNetwork
) -> None:
    far = far_lake.load(grown.namespace, grown.name)
    network.accidents = [accident, accident]
    far.evolve([add("note", "string")])
    grown.refresh()
    assert shown(grown.schema) == shown(far.schema) == COLUMNS | {"note": "string"}


def test_others_change_the_schema_first(grown: LakeTable, far_lake: Lake, network: CommitNetwork) -> None:
    far = far_lake.load(grown.namespace, grown.name)
    rival = grown.lake.load(grown.namespace, grown.name)
    network.accidents = [Accident(before=lambda: rival.evolve([add("theirs", "int")]))]
    far.evolve([add("theirs", "long"), add("ours", "string")])
    grown.refresh()
    assert shown(grown.schema) == COLUMNS | {"theirs": "long", "ours": "string"}


def test_between_rounds(lake: Lake, table: LakeTable, reader: Reader) -> None:
    """The next round writes the new column; a round that had begun lands without it."""
    writer = PipelineWriter.claim(lake, table, "orders", first, "")
    ticket = writer.begin()
    table.evolve([add("note", "string")])
    commit(writer, [1], ticket)
    foreign_append(table, [2])
    assert [field.name for field in writer.begin().schema] == ["id", "word", "note"]
    commit(writer, [3])
    reader.check("orders", [1, 2, 3])
