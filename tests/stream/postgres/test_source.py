"""What can be set, and what cannot."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frazil.core.errors import InvalidConfig
from frazil.stream.postgres import PostgresSource
from frazil.stream.postgres.engine import snapshot_properties, stream_properties
from frazil.stream.postgres.source import include_list


def source_of(*tables: str, **settings: Any) -> PostgresSource:
    given: dict[str, Any] = {
        "name": "my-shop",
        "host": "h",
        "database": "d",
        "user": "u",
        "password": "s3cret",
    }
    return PostgresSource(**given | {"tables": tables or ("public.a",)} | settings)


def test_names_are_made_from_the_pipeline_and_the_password_is_never_shown() -> None:
    source = source_of()
    assert (source.slot, source.publication) == ("frazil_my_shop", "frazil_my_shop")
    assert source_of(slot="mine").publication == "mine"
    assert source.topic("public", "odd name") == "my-shop.public.odd_name"
    assert "s3cret" not in repr(source)


@pytest.mark.parametrize(
    ("pattern", "fits", "differs"),
    [
        ("public.*", ["public.a", "public.b_c"], ["other.a", "xpublic.a"]),
        ("public.t?", ["public.t1"], ["public.t", "public.t12"]),
        ("a$b.c", ["a$b.c"], ["a$b.x", "a$bx.c"]),
    ],
)
def test_patterns_mean_the_same_to_debezium(pattern: str, fits: list[str], differs: list[str]) -> None:
    source = source_of(pattern)
    expression = re.compile(include_list(source))
    for name in fits + differs:
        assert source.wants(*name.split(".")) is (name in fits)
        assert bool(expression.fullmatch(name)) is (name in fits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tables": ()}, "at least one table"),
        ({"tables": ("a",)}, "schema.table"),
        ({"tables": ("public.a,public.b",)}, "schema.table"),
        ({"tables": ("public.[ab]",)}, "schema.table"),
        ({"slot": "Shop"}, "cannot name a slot"),
        ({"publication": 'a"; DROP TABLE x'}, "cannot name a publication"),
        ({"sslmode": "none"}, "sslmode"),
        ({"properties": {"slot.name": "other"}}, "'slot.name' cannot be set"),
        ({"properties": {"offset.storage": "x"}}, "'offset.storage' cannot be set"),
        ({"properties": {"snapshot.mode": "always"}}, "'snapshot.mode' cannot be set"),
        ({"properties": {"lsn.flush.mode": "manual"}}, "'lsn.flush.mode' cannot be set"),
        ({"properties": {"transforms": "unwrap"}}, "'transforms' cannot be set"),
    ],
)
def test_settings_that_would_break_it_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(message)):
        source_of(**settings)


def test_free_properties_reach_debezium() -> None:
    source = source_of(
        properties={"decimal.handling.mode": "string", "column.exclude.list": "public.a.secret"}
    )
    rows = [snapshot_properties(source, (("s.x", "a"),), makes_slot=makes) for makes in (True, False)]
    for properties in (stream_properties(source), *rows):
        assert properties["decimal.handling.mode"] == "string"
        assert properties["column.exclude.list"] == "public.a.secret"
        assert properties["skipped.operations"] == "none"
    assert [each["table.include.list"] for each in rows] == [r"s\.x\.a"] * 2
    assert [each["snapshot.mode"] for each in rows] == ["initial", "initial_only"]
