"""Records of every format, through whole pipelines; what a registry knows makes the table."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass
from tests.stream.world import World

from frazil.devstack.registry import SchemaRegistry
from frazil.stream.config import PipelineConfig
from frazil.stream.decode.protobuf_descriptors import message_of_text

BY = ("partition", "offset")
NAMES = ("avro", "protobuf", "csv", "raw", "orc", "avro_files")
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
MORE = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
PROTO = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; repeated string tags = 2; map<string, double> prices = 3; }
"""


def avro(number: int, schema: dict[str, Any], **values: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, values)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def proto(number: int, **values: Any) -> bytes:
    message = GetMessageClass(message_of_text(PROTO, {}, [0]))(**values)
    return b"\0" + number.to_bytes(4, "big") + b"\0" + message.SerializeToString()


@pytest.fixture
def pipelines(world: World, registry: SchemaRegistry) -> dict[str, PipelineConfig]:
    """Avro and Protobuf without a schema of their own, CSV, raw bytes, and tables of ORC and Avro files."""
    topics = {
        name: world.topic(partitions=1) for name in ("avro", "protobuf", "csv", "raw", "orc", "avro_files")
    }
    first = registry.register(f"{topics['avro']}-value", json.dumps(ORDER))
    second = registry.register(f"{topics['avro']}-value", json.dumps(MORE))
    message = registry.register(f"{topics['protobuf']}-value", PROTO, "PROTOBUF")
    at = 1_767_225_600_000
    records: dict[str, list[dict[str, Any] | bytes]] = {
        "avro": [
            avro(first, ORDER, id=1, at=at, tags=["a"]),
            avro(second, MORE, id=2, at=at, tags=[], note="n"),
            avro(999_999, ORDER, id=3, at=at, tags=[]),
        ],
        "protobuf": [proto(message, id=1, tags=["a", "b"], prices={"x": 1.5}), b"\0\0"],
        "csv": [b'1,"a,b",2026-01-01', b"2,,2026-01-02", b"x,y,z"],
        "raw": [b"\x00\xff", b"two"],
        "orc": [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": None}],
        "avro_files": [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": None}],
    }
    for name, topic in topics.items():
        world.produce(topic, records[name], partitions=1)
    columns = {"id": "long required", "tags": "list<string>"}
    settings: dict[str, dict[str, Any]] = {
        "avro": {"format": "avro", "registry": registry.url, "schema": None},
        "protobuf": {"format": "protobuf", "registry": registry.url, "schema": None},
        "csv": {"format": "csv", "schema": {"id": "long", "word": "string", "day": "date"}},
        "raw": {"format": "raw", "schema": None, "metadata": {"offset": "id"}},
        "orc": {"files": {"format": "orc"}, "schema": columns},
        "avro_files": {"files": {"format": "avro"}, "schema": columns},
    }
    return {name: world.pipeline(topic, f"format_{name}", **settings[name]) for name, topic in topics.items()}


def test_every_format(world: World, pipelines: dict[str, PipelineConfig]) -> None:
    world.run(*pipelines.values())
    orders = world.rows("format_avro")
    assert [(row["id"], row["tags"], row["note"], row["at"].year) for row in orders] == [
        (1, ["a"], None, 2026),
        (2, [], "n", 2026),
    ]
    (letter,) = world.rows("format_avro_dead_letters", BY)
    assert (letter["fault"], letter["offset"]) == ("unknown-schema", 2)
    (order,) = world.rows("format_protobuf")
    assert (order["tags"], dict(order["prices"])) == (["a", "b"], {"x": 1.5})
    assert [row["fault"] for row in world.rows("format_protobuf_dead_letters", BY)] == ["broken"]
    assert [(row["id"], row["word"], row["day"].day) for row in world.rows("format_csv")] == [
        (1, "a,b", 1),
        (2, None, 2),
    ]
    assert [row["fault"] for row in world.rows("format_csv_dead_letters", BY)] == ["type"]
    assert [row["value"] for row in world.rows("format_raw")] == [b"\x00\xff", b"two"]
    for name in ("orc", "avro_files"):
        found = world.spark_rows(f"SELECT id, tags FROM {{}}.format_{name} ORDER BY id")
        assert [(row["id"], row["tags"]) for row in found] == [(1, ["a"]), (2, None)]
        files = world.spark_rows(f"SELECT DISTINCT file_format AS f FROM {{}}.format_{name}.files")
        assert [row["f"] for row in files] == ["ORC" if name == "orc" else "AVRO"]
