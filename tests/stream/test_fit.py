from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.dead_letters import DEAD_LETTERS, require_letters
from frazil.stream.fit import problems


def schema(**columns: str) -> Schema:
    return Schema(
        tuple(
            Field(name, parse_type(text.removesuffix(" required")), text.endswith(" required"))
            for name, text in columns.items()
        )
    )


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        (schema(a="int"), schema(a="int")),
        (schema(a="int"), schema(a="long", b="string")),
        (schema(a="float"), schema(a="double")),
        (schema(a="decimal(9, 2)"), schema(a="decimal(12, 2)")),
        (schema(a="string"), schema(a="uuid")),
        (schema(a="binary"), schema(a="fixed[4]")),
        (schema(a="struct<x: int>"), schema(a="struct<x: long, y: string>")),
        (schema(a="list<int>"), schema(a="list<long>")),
        (schema(a="map<string, int>"), schema(a="map<string, long>")),
        (schema(a="int"), schema(a="int required")),
    ],
)
def test_rows_that_fit(rows: Schema, table: Schema) -> None:
    assert problems(rows, table) == []


@pytest.mark.parametrize(
    ("rows", "table", "word"),
    [
        (schema(a="int", b="int"), schema(a="int"), "no column 'b'"),
        (schema(a="long"), schema(a="int"), "'a' is int in the table, long in the rows"),
        (schema(a="decimal(9, 2)"), schema(a="decimal(9, 3)"), "'a' is decimal(9, 3)"),
        (schema(a="decimal(12, 2)"), schema(a="decimal(9, 2)"), "'a' is decimal(9, 2)"),
        (schema(a="int"), schema(a="int", b="int required"), "requires 'b'"),
        (schema(a="struct<x: string>"), schema(a="struct<x: int>"), "'a.x' is int"),
        (schema(a="struct<z: int>"), schema(a="struct<x: int>"), "no column 'a.z'"),
        (schema(a="list<string>"), schema(a="list<int>"), "'a.element' is int"),
        (schema(a="map<string, string>"), schema(a="map<string, int>"), "'a.value' is int"),
        (schema(a="list<int>"), schema(a="int"), "'a' is int in the table, list<int> in the rows"),
    ],
)
def test_rows_that_do_not(rows: Schema, table: Schema, word: str) -> None:
    (problem,) = problems(rows, table)
    assert word in problem


def test_what_can_be_a_table_of_bad_records() -> None:
    """Columns of other types cannot hold them, whatever they are called."""
    require_letters("a.letters", DEAD_LETTERS)
    wider = Field("note", "string")
    require_letters("a.letters", Schema((*DEAD_LETTERS, wider)))
    others = Schema(tuple(replace(f, type="string") if f.name == "offset" else f for f in DEAD_LETTERS))
    with pytest.raises(InvalidConfig, match=r"a\.letters is named for bad records.*'offset' is string"):
        require_letters("a.letters", others)
