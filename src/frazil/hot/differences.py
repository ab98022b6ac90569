"""Whether a table is as it was declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema, Type, show_type
from frazil.hot.declared.declaration import Declaration
from frazil.hot.table import BUCKETS, current_schema

_OPTIONS = ("table.", "bucket.", "frazil.hot.")


def differences(declaration: Declaration, metadata: Mapping[str, Any]) -> list[str]:
    """What is otherwise in a table than it was declared, in words; comments do not count."""
    document = current_schema(metadata)
    schema = Schema.from_json(document)
    return [
        *_columns(declaration, schema),
        *_layout(declaration, metadata, schema, document),
        *_settings(declaration, metadata),
    ]


def _columns(declaration: Declaration, schema: Schema) -> list[str]:
    there = {one.name: one for one in schema}
    found = [
        f"column '{one.name}' is not in the table" for one in declaration.columns if one.name not in there
    ]
    declared = {one.name for one in declaration.columns}
    found += [f"column '{name}' is in the table alone" for name in there if name not in declared]
    for one in declaration.columns:
        own = there.get(one.name)
        if own is None:
            continue
        kinds = [show_type(kind.type) + (" NOT NULL" if kind.required else "") for kind in (own, one)]
        if kinds[0] != kinds[1] or _bare(own.type) != _bare(one.type):
            found.append(f"column '{one.name}' is {kinds[0]} in the table and {kinds[1]} here")
    return found


def _bare(kind: Type) -> Any:
    """A type without comments and the numbers that a catalog gave."""
    return _without_docs(Schema((Field("", kind),)).with_fresh_ids().to_json())


def _without_docs(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _without_docs(value) for key, value in document.items() if key != "doc"}
    return [_without_docs(one) for one in document] if isinstance(document, list) else document


def _layout(
    declaration: Declaration, metadata: Mapping[str, Any], schema: Schema, document: Mapping[str, Any]
) -> list[str]:
    found = []
    ids = set(document.get("identifier-field-ids") or ())
    key = {one.name for one in schema if one.id in ids}
    if key != set(declaration.key):
        found.append(f"the primary key is ({', '.join(sorted(key))}) in the table")
    wanted = metadata["default-spec-id"]
    spec = next(one for one in metadata["partition-specs"] if one["spec-id"] == wanted)
    own = [(one.source, one.transform) for one in PartitionSpec.from_json(spec, schema).fields]
    if own != [(one.source, one.transform) for one in declaration.partitioning]:
        parts = ", ".join(f"{transform} of {source}" for source, transform in own) or "nothing"
        found.append(f"it is partitioned by {parts} in the table")
    return found


def _settings(declaration: Declaration, metadata: Mapping[str, Any]) -> list[str]:
    properties: Mapping[str, str] = metadata.get("properties") or {}
    options = {**declaration.options, BUCKETS: str(declaration.buckets)}
    there = {name: value for name, value in properties.items() if name.startswith(_OPTIONS)}
    names = dict.fromkeys((*options, *there, *declaration.properties))
    wanted = {**declaration.properties, **options}
    found = [
        f"'{name}' is {_said(properties.get(name))} in the table and {_said(wanted.get(name))} here"
        for name in names
        if properties.get(name) != wanted.get(name)
    ]
    version = metadata.get("format-version")
    if version != declaration.format_version:
        found.append(f"the format version is {version} in the table and {declaration.format_version} here")
    return found


def _said(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"
