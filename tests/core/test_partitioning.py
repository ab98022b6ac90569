from __future__ import annotations

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import PartitionSpec, bind, parse_partitioning
from frazil.core.schema import Field, Schema

SCHEMA = Schema(
    (
        Field("id", "long"),
        Field("at", "timestamptz"),
        Field("on", "date"),
        Field("code", "string"),
        Field("x", "double"),
    )
).with_fresh_ids()


@pytest.mark.parametrize(
    ("text", "transform", "name", "source"),
    [
        ("id", "identity", "id", "id"),
        ("identity(id)", "identity", "id", "id"),
        ("day(at)", "day", "at_day", "at"),
        ("days(at)", "day", "at_day", "at"),
        ("HOUR( at )", "hour", "at_hour", "at"),
        ("bucket(16, id)", "bucket[16]", "id_bucket", "id"),
        ("truncate(4,code)", "truncate[4]", "code_trunc", "code"),
    ],
)
def test_fields_are_read_and_bound(text: str, transform: str, name: str, source: str) -> None:
    spec = bind(parse_partitioning([text]), SCHEMA)
    (field,) = spec.fields
    assert (field.transform, field.name, field.source) == (transform, name, source)
    assert field.source_id == SCHEMA.field(source).id
    assert field.field_id == 1000
    assert PartitionSpec.from_json(spec.to_json(), SCHEMA) == spec


@pytest.mark.parametrize(
    "text", ["", "day()", "day(2, at)", "bucket(id)", "bucket(0, id)", "decade(at)", "day(at"]
)
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="bucket\\(n, c\\)"):
        parse_partitioning([text])


@pytest.mark.parametrize("text", ["day(id)", "hour(on)", "bucket(4, x)", "truncate(4, at)", "truncate(2, x)"])
def test_what_does_not_fit_the_column_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot partition by"):
        bind(parse_partitioning([text]), SCHEMA)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="no column 'nope'"):
        bind(parse_partitioning(["nope"]), SCHEMA)
