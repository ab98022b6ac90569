from __future__ import annotations

import json
import time
from typing import Any, get_args

import msgspec
import pytest

from frazil.catalog import metadata, wire
from frazil.core.errors import InvalidInput

Json = dict[str, Any]


def commit(*updates: Json, requirements: list[Json] | None = None) -> bytes:
    return json.dumps({"requirements": requirements or [], "updates": list(updates)}).encode()


def table(schema_fields: list[Json], **more: Any) -> bytes:
    schema = {"type": "struct", "fields": schema_fields}
    return json.dumps({"name": "t", "schema": schema} | more).encode()


def column(type_: Any, number: int = 1) -> Json:
    return {"id": number, "name": f"c{number}", "type": type_, "required": False}


def create(body: bytes) -> Json:
    _, raw = wire.decode(wire.CreateTableRequest, body)
    return metadata.new_table_metadata(
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="s3://b/t",
        schema=raw["schema"],
        partition_spec=None,
        write_order=None,
        properties={},
        format_version=3,
        now_ms=0,
    )


def test_both_views_come_from_one_parse() -> None:
    typed, raw = wire.decode(wire.CreateTableRequest, table([column("int")], location=None, future={"x": 1}))
    assert (typed.name, typed.location, typed.schema.fields[0].type) == ("t", None, "int")
    assert raw["future"] == {"x": 1}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'{"a":1e999}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid JSON"),
        (b'{"a":"\\ud800"}', "not valid JSON"),
        (b'{"a":"\\ud800\\u0041"}', "not valid JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"a":' + b"[" * 400 + b"]" * 400 + b"}", "nested too deeply"),
        (b'{"a":"x\\u0000y"}', r"NUL character at `\$.a`"),
        (b'{"a":{"x\\u0000y":1}}', r"NUL character in a key of `\$.a`"),
    ],
)
def test_bodies_that_are_no_request(body: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        wire.decode(wire.CreateTableRequest, body)


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    _, raw = wire.decode(wire.RegisterTableRequest, rb'{"name":"a\\u0000b","metadata-location":"x"}')
    assert raw["name"] == r"a\u0000b"


def test_a_key_given_twice_means_one_thing() -> None:
    body = b'{"requirements":[],"updates":[{"action":"set-location","location":"x","action":"add-schema"}]}'
    with pytest.raises(InvalidInput, match="schema"):
        wire.decode(wire.CommitTableRequest, body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (commit({"action": "drop-everything"}), r"drop-everything.*\$.updates\[0\].action"),
        (commit({}), r"action.*\$.updates\[0\]"),
        (commit({"action": "set-location"}), r"location.*\$.updates\[0\]"),
        (commit({"action": "set-properties", "updates": {"a": 1}}), r"\$.updates\[0\].updates"),
        (commit({"action": "set-current-schema", "schema-id": 2**31}), r"\$.updates\[0\].schema-id"),
        (commit({"action": "remove-snapshots", "snapshot-ids": [2**63]}), r"snapshot-ids\[0\]"),
        (commit({"action": "remove-snapshots", "snapshot-ids": [True]}), "bool"),
        (commit({"action": "set-current-schema", "schema-id": 1.0}), "float"),
        (commit({"action": "add-view-version"}), "add-view-version"),
        (commit(requirements=[{"type": "assert-luck"}]), r"assert-luck.*\$.requirements\[0\].type"),
        (b'{"updates":[]}', "requirements"),
        (b'{"requirements":[]}', "updates"),
        (b'{"requirements":null,"updates":[]}', "requirements"),
    ],
)
def test_commits_that_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        wire.decode(wire.CommitTableRequest, body)


def test_a_transaction_names_its_tables() -> None:
    body = json.dumps({"table-changes": [{"requirements": [], "updates": []}]}).encode()
    with pytest.raises(InvalidInput, match=r"identifier.*\$.table-changes\[0\]"):
        wire.decode(wire.CommitTransactionRequest, body)


GOOD_TYPES = [
    *["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string"],
    *["timestamp_ns", "timestamptz_ns", "uuid", "binary", "unknown", "variant"],
    *["decimal(1,0)", "decimal(38,38)", "fixed[1]", "fixed[2147483647]", "geometry", "geometry(srid:3857)"],
    *["geography", "geography(srid:4269)", "geography(srid:4269,karney)"],
]
BAD_TYPES = [
    *["", "Int", "int ", "integer", "struct", "decimal", "decimal(0,0)", "decimal(39,1)", "decimal(2,3)"],
    *[
        "decimal(a,b)",
        "decimal(9,2)\n",
        "fixed[0]",
        "fixed[]",
        "fixed[2147483648]",
        "geometry(",
        "geometry()x",
    ],
    *["geometry(a,karney)", "geography(a,flat)"],
]


@pytest.mark.parametrize("name", [*GOOD_TYPES, "decimal( 9 , 2 )", "geography(OGC:CRS84, spherical)"])
def test_primitive_types(name: str) -> None:
    assert wire.parse_primitive(name) is not None
    wire.decode(wire.CreateTableRequest, table([column(name)]))


@pytest.mark.parametrize("name", BAD_TYPES)
def test_names_that_are_no_primitive_type(name: str) -> None:
    """The wire refuses most of them; what its pattern lets through, the engine refuses."""
    assert wire.parse_primitive(name) is None
    with pytest.raises(InvalidInput):
        create(table([column(name)]))


@pytest.mark.parametrize(
    "type_",
    [
        5,
        None,
        {"type": "set"},
        {"type": "list", "element-id": 2, "element": "int"},
        {"type": "map", "key-id": 2, "key": "int", "value-id": 3, "value-required": True},
        {"fields": []},
    ],
)
def test_nested_types_that_are_refused(type_: Any) -> None:
    with pytest.raises(InvalidInput, match=r"\$.schema.fields\[0\].type"):
        wire.decode(wire.CreateTableRequest, table([column(type_)]))


def test_five_thousand_columns() -> None:
    body = table([column("string", i) for i in range(5000)])
    # What this thread computes: the time on the clock is also that of all others on this machine.
    start = time.thread_time()
    typed, _ = wire.decode(wire.CreateTableRequest, body)
    assert time.thread_time() - start < 0.5
    assert len(typed.schema.fields) == 5000


def test_a_thousand_levels() -> None:
    nested: bytes = b'"int"'
    for _ in range(1000):
        nested = b'{"type":"list","element-id":1,"element-required":true,"element":' + nested + b"}"
    body = b'{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":true,"type":'
    with pytest.raises(InvalidInput, match="nested too deeply"):
        wire.decode(wire.CreateTableRequest, body + nested + b"}]}}")


def test_ten_megabytes() -> None:
    properties = {f"key{i}": "x" * 90 for i in range(100_000)}
    body = json.dumps({"namespace": ["a"], "properties": properties}).encode()
    start = time.thread_time()
    typed, _ = wire.decode(wire.CreateNamespaceRequest, body)
    assert time.thread_time() - start < 2
    assert len(typed.properties or {}) == 100_000


def test_reports_of_any_kind_pass() -> None:
    scan = {
        "report-type": "scan-report",
        "table-name": "t",
        "snapshot-id": 1,
        "filter": True,
        "metrics": {"new": 1},
    }
    for body in (scan, {"report-type": "commit-report", "operation": "append"}, {"report-type": "of-2030"}):
        wire.decode(wire.ReportMetricsRequest, json.dumps(body).encode())
    with pytest.raises(InvalidInput, match="report-type"):
        wire.decode(wire.ReportMetricsRequest, b"{}")


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_cannot_be_stored(text: str) -> None:
    with pytest.raises(InvalidInput, match="the table name"):
        wire.check_text(text, "the table name")
    assert wire.check_text("naïve 表 😀", "the table name") == "naïve 表 😀"


def test_every_body_has_a_json_schema() -> None:
    bodies = [
        getattr(wire, name)
        for name in wire.__all__
        if name.endswith(("Request", "Response", "Result", "Config"))
    ]
    assert len(bodies) >= 20
    _, components = msgspec.json.schema_components(bodies)
    assert "StructField" in components
    text = json.dumps(components)
    for update in get_args(wire.TableUpdate):
        assert f'"{update.__struct_config__.tag}"' in text


def test_what_the_engine_makes_is_what_the_responses_describe() -> None:
    document = create(table([column("int")]))
    loaded = wire.validate(
        wire.LoadTableResult, {"metadata": document, "metadata-location": None, "config": {}}
    )
    assert loaded.metadata.next_row_id == 0
