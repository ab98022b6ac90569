"""Schemas that messages carry or name, as wire types: Connect's in JSON, and its converter's in Avro."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.stream.cdc.decode.wire import BITS, DECIMAL, Wire

_CONNECT_KINDS = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_AVRO_KINDS = {"fixed": "bytes", "enum": "string", "error": "record"}
#: What the Avro converter writes where the source says no precision.
_UNSAID = 64
_SOURCE_TYPE = "__debezium.source.column.type"


def connect_wire(document: Any) -> Wire:
    """Of the `schema` part of a message; InvalidConfig if it is none."""
    try:
        return _connect(document)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InvalidConfig("the schema of the message is none of Kafka Connect's") from None


def _connect(document: Mapping[str, Any]) -> Wire:
    kind = document.get("type")
    if kind == "struct":
        inner = tuple((str(one["field"]), _connect(one)) for one in document.get("fields") or ())
        if len(dict(inner)) < len(inner):
            raise ValueError(inner)
        return Wire("struct", document.get("name") or "", inner=inner)
    if kind == "array":
        return Wire("array", inner=(("element", _connect(document["items"])),))
    if kind == "map":
        return _map(_connect(document["keys"]), _connect(document["values"]))
    found = _CONNECT_KINDS.get(str(kind))
    if found is None:
        raise ValueError(kind)
    return _named(found, document.get("name") or "", document.get("parameters") or {})


def _map(key: Wire, value: Wire) -> Wire:
    """Other keys than texts make a list of pairs in JSON, and of records in Avro."""
    if key.kind == "string":
        return Wire("map", inner=(("key", key), ("value", value)))
    return Wire("none")


def _named(kind: str, name: str, parameters: Mapping[str, Any]) -> Wire:
    if kind == "bytes" and name == DECIMAL:
        precision = int(parameters.get("connect.decimal.precision", 0))
        return Wire(kind, name, scale=int(parameters.get("scale", 0)), precision=precision)
    if name == BITS:
        return Wire(kind, name, length=int(parameters.get("length", 0)))
    source = str(parameters.get(_SOURCE_TYPE, "")).upper()
    unsigned = kind == "long" and not name and "BIGINT" in source and "UNSIGNED" in source
    return Wire(kind, name, unsigned=unsigned)


def avro_wire(text: str) -> tuple[Wire, str]:
    """The wire type of a registered schema, and the same schema with its values as they are written.

    Without logical types: what they mean is Connect's matter, which knows more of them.
    """
    document = json.loads(text)
    return _Avro().wire(document), json.dumps(_bare(document))


class _Avro:
    def __init__(self) -> None:
        self._known: dict[str, Wire] = {}

    def wire(self, document: Any, namespace: str = "") -> Wire:
        if isinstance(document, list):
            branches = [one for one in document if one != "null"]
            return self.wire(branches[0], namespace) if len(branches) == 1 else Wire("none")
        if isinstance(document, str):
            return self._word(document, namespace)
        kind = document["type"]
        if not isinstance(kind, str):
            return self.wire(kind, namespace)
        kind = _AVRO_KINDS.get(kind, kind)
        if kind == "record":
            return self._record(document, namespace)
        if kind == "array":
            return Wire("array", inner=(("element", self.wire(document["items"], namespace)),))
        if kind == "map":
            return _map(Wire("string"), self.wire(document["values"], namespace))
        found = self._primitive(document, kind) if kind in _PRIMITIVES else self._word(kind, namespace)
        if "name" in document:
            self._name(document, namespace, found)
        return found

    def _primitive(self, document: Mapping[str, Any], kind: str) -> Wire:
        name = document.get("connect.name") or ""
        parameters = dict(document.get("connect.parameters") or {})
        if document.get("logicalType") == "decimal" and name in ("", DECIMAL):
            name = DECIMAL
            precision = document.get("precision", 0)
            parameters.setdefault("connect.decimal.precision", 0 if precision == _UNSAID else precision)
            parameters["scale"] = document.get("scale", 0)
        elif not name:
            name = _LOGICAL.get(document.get("logicalType") or "", "")
        return _named(kind, name, parameters)

    def _record(self, document: Mapping[str, Any], namespace: str) -> Wire:
        full = _full(document, namespace)
        self._known[full] = Wire("none")
        inside = full.rpartition(".")[0]
        inner = tuple((one["name"], self.wire(one["type"], inside)) for one in document["fields"])
        found = self._known[full] = Wire("struct", document.get("connect.name") or "", inner=inner)
        return found

    def _name(self, document: Mapping[str, Any], namespace: str, found: Wire) -> None:
        self._known[_full(document, namespace)] = found

    def _word(self, word: str, namespace: str) -> Wire:
        if word in _PRIMITIVES:
            return Wire(word)
        return self._known.get(f"{namespace}.{word}") or self._known.get(word) or Wire("none")


_PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")
_LOGICAL = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "uuid": "io.debezium.data.Uuid",
}


def _full(document: Mapping[str, Any], namespace: str) -> str:
    name = str(document["name"])
    space = document.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _bare(document: Any) -> Any:
    if isinstance(document, list):
        return [_bare(one) for one in document]
    if isinstance(document, dict):
        kept = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size")
        return {key: _bare(document[key]) for key in kept if key in document}
    return document
