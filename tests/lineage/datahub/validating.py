"""Whether metadata is what DataHub's schema says, stricter than `datahub check metadata-file`.

That one passes unknown fields, unknown aspects and URNs that are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datahub.emitter.serialization_helper import post_json_transform, pre_json_transform
from datahub.metadata.schema_classes import ASPECT_NAME_MAP, KEY_ASPECTS
from datahub.metadata.urns import (
    ContainerUrn,
    DataFlowUrn,
    DataJobUrn,
    DataPlatformInstanceUrn,
    DataPlatformUrn,
    DataProcessInstanceUrn,
    DatasetUrn,
    SchemaFieldUrn,
)
from datahub.utilities.urns.urn import Urn

_URNS: dict[str, type[Any]] = {
    urn.ENTITY_TYPE: urn
    for urn in (
        ContainerUrn,
        DataFlowUrn,
        DataJobUrn,
        DataPlatformInstanceUrn,
        DataPlatformUrn,
        DataProcessInstanceUrn,
        DatasetUrn,
        SchemaFieldUrn,
    )
}


def problems(records: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the records of a metadata file; nothing, if all is right."""
    found = []
    for number, record in enumerate(records):
        where = f"{number} {record.get('aspectName')} of {record.get('entityUrn')}"
        found += [f"{where}: {problem}" for problem in _wrong(record)]
    return found


def _wrong(record: dict[str, Any]) -> Iterator[str]:
    aspect, json = record["aspectName"], record["aspect"]["json"]
    yield from _urn(record["entityUrn"], record["entityType"])
    kind = ASPECT_NAME_MAP.get(aspect)
    if kind is None:
        yield "no such aspect"
        return
    entity = KEY_ASPECTS[record["entityType"]]
    if aspect not in entity.get_aspect_info()["entityAspects"] and kind is not entity:
        yield f"no aspect of a {record['entityType']}"
    # In files, types are named without the package that Avro's schemas are in.
    try:
        read = kind.from_obj(post_json_transform(json), tuples=False)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        yield f"cannot be read: {error}"
        return
    if not read.validate():
        yield "not valid"
    unknown = set(_paths(_given(json))) - set(_paths(_given(pre_json_transform(read.to_obj(tuples=False)))))
    if unknown:
        yield f"unknown fields {sorted(unknown)}"
    for urn in _urns(json):
        yield from _urn(urn)


def _urn(text: str, entity: str | None = None) -> Iterator[str]:
    kind = _URNS.get(text.split(":")[2], Urn)
    try:
        urn = kind.from_string(text)
    except Exception as error:  # noqa: BLE001
        yield f"{text}: {error}"
        return
    if str(urn) != text or (entity is not None and urn.entity_type != entity):
        yield f"{text} is not the URN that it should be: {urn}"


def _urns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _urns(item)
    elif isinstance(value, list):
        for item in value:
            yield from _urns(item)
    elif isinstance(value, str) and value.startswith("urn:li:"):
        yield value


def _given(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list) else value


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}/{key}"
            yield from _paths(item, f"{path}/{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{path}[]")
