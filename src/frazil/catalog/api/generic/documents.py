"""What is stored of a generic table."""

from __future__ import annotations

import re

import msgspec

from frazil.catalog import wire
from frazil.catalog.http import json_bytes
from frazil.core.errors import InvalidInput

#: Of `schema` and of `statistics`, without white space between their parts.
MAX_JSON_BYTES = 1024 * 1024

_FORMAT = re.compile(wire.FORMAT_PATTERN.removesuffix("$"))
_verbatim = msgspec.json.Decoder(wire.Verbatim)


def check_format(name: str) -> str:
    if not _FORMAT.fullmatch(name):
        raise InvalidInput(
            f"format {name[:80]!a} is not a lower-case letter followed by at most 63 lower-case letters, "
            "digits, '_' or '-'",
            kind="InvalidFormat",
        )
    return name


def contents(body: wire.CreateGenericTableRequest, raw_body: bytes) -> bytes:
    """All that the request says about the table itself, checked, as a JSON object."""
    verbatim = _verbatim.decode(raw_body)
    parts = [
        b'{"format":' + json_bytes(check_format(body.format)),
        b'"properties":' + json_bytes(body.properties or {}),
    ]
    if body.doc is not None:
        parts.append(b'"doc":' + json_bytes(body.doc))
    for field, value in (("schema", verbatim.schema), ("statistics", verbatim.statistics)):
        compact = _compact(value, field)
        if compact != b"null":
            parts.append(b'"%s":%s' % (field.encode(), compact))
    return b",".join(parts) + b"}"


def placed(table: bytes, location: str) -> bytes:
    """The document that is stored: the `table` of an answer without what a rename or a flag changes."""
    return b'{"base-location":' + json_bytes(location) + b"," + table[1:]


def _compact(value: msgspec.Raw, field: str) -> bytes:
    compact = msgspec.json.format(bytes(value), indent=-1)
    if len(compact) > MAX_JSON_BYTES:
        raise InvalidInput(
            f"{field} is {len(compact)} bytes of JSON, at most {MAX_JSON_BYTES} are allowed",
            kind="PayloadTooLarge",
        )
    return compact
