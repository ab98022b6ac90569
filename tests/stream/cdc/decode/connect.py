"""Kafka Connect's schemas for made messages, as its converters for JSON and Avro write them."""

from __future__ import annotations

import base64
from typing import Any

_AVRO = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


def field(kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    """Of a single value."""
    found: dict[str, Any] = {"type": kind, "optional": True}
    if name:
        found |= {"name": name, "version": 1}
    return found | ({"parameters": parameters} if parameters else {})


def struct(name: str, /, **fields: dict[str, Any]) -> dict[str, Any]:
    inner = [{**one, "field": key} for key, one in fields.items()]
    return {"type": "struct", "fields": inner, "optional": True, "name": name}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "optional": True}


def mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "map", "keys": {"type": "string"}, "values": values, "optional": True}


def envelope_schema(row: dict[str, Any]) -> dict[str, Any]:
    source = struct(
        "io.debezium.connector.postgresql.Source",
        connector=field("string"),
        ts_ms=field("int64"),
        snapshot=field("string", "io.debezium.data.Enum", allowed="true,false"),
        sequence=field("string"),
        gtid=field("string"),
        server_id=field("int64"),
        file=field("string"),
        pos=field("int64"),
        row=field("int32"),
    )
    block = struct("event.block", id=field("string"))
    found = struct(
        "t.Envelope", before=row, after=row, source=source, transaction=block, op=field("string"),
        ts_ms=field("int64"),
    )  # fmt: skip
    return {**found, "optional": False}


def avro_schema(schema: dict[str, Any], known: set[str] | None = None) -> Any:
    """What Connect's Avro converter registers."""
    known = set() if known is None else known
    kind = schema["type"]
    if kind == "struct":
        found: Any = _record(schema, known)
    elif kind == "array":
        found = {"type": "array", "items": avro_schema(schema["items"], known)}
    elif kind == "map":
        found = {"type": "map", "values": avro_schema(schema["values"], known)}
    else:
        found = _leaf(schema)
    return ["null", found] if schema.get("optional") else found


def _record(schema: dict[str, Any], known: set[str]) -> Any:
    name = schema["name"]
    if name in known:
        return name
    known.add(name)
    space, _, word = name.rpartition(".")
    fields = [{"name": one["field"], "type": avro_schema(one, known)} for one in schema["fields"]]
    return {"type": "record", "name": word, "namespace": space or "x", "connect.name": name, "fields": fields}


def _leaf(schema: dict[str, Any]) -> Any:
    kind, name = _AVRO[schema["type"]], schema.get("name")
    if not name:
        parameters = schema.get("parameters")
        return {"type": kind, "connect.parameters": parameters} if parameters else kind
    found = {"type": kind, "connect.version": 1, "connect.name": name}
    parameters = schema.get("parameters") or {}
    if name.endswith("data.Decimal"):
        precision = int(parameters.get("connect.decimal.precision", 64))
        found |= {"logicalType": "decimal", "scale": int(parameters["scale"]), "precision": precision}
    elif name in _LOGICAL:
        found["logicalType"] = _LOGICAL[name]
    return found | ({"connect.parameters": parameters} if parameters else {})


def json_value(schema: dict[str, Any], value: Any) -> Any:
    """As the JSON converter writes it."""
    kind = schema["type"]
    if value is None:
        return None
    if kind == "struct":
        return {one["field"]: json_value(one, value.get(one["field"])) for one in schema["fields"]}
    if kind == "array":
        return [json_value(schema["items"], one) for one in value]
    if kind == "map":
        return {key: json_value(schema["values"], one) for key, one in value.items()}
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def avro_value(schema: dict[str, Any], value: Any) -> Any:
    if schema["type"] == "struct" and value is not None:
        return {one["field"]: avro_value(one, value.get(one["field"])) for one in schema["fields"]}
    return value
