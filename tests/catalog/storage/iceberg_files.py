"""Hand-written manifests, for what PyIceberg does not write: delete files, odd codecs, damage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import fastavro

_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "snapshot_id", "type": ["null", "long"], "default": None},
        {
            "name": "data_file",
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "content", "type": "int", "default": 0},
                    {"name": "file_path", "type": "string"},
                    {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}},
                    {
                        "name": "column_sizes",
                        "type": [
                            "null",
                            {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "k117_v118",
                                    "fields": [
                                        {"name": "key", "type": "int"},
                                        {"name": "value", "type": "long"},
                                    ],
                                },
                                "logicalType": "map",
                            },
                        ],
                        "default": None,
                    },
                ],
            },
        },
    ],
}
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}],
}


def manifest(entries: Iterable[tuple[int, str]], codec: str = "deflate", content: int = 0) -> bytes:
    """A manifest of (status, file path) entries."""
    sizes = [{"key": 1, "value": 10}]
    records = [
        {
            "status": status,
            "data_file": {"content": content, "file_path": path, "partition": {}, "column_sizes": sizes},
        }
        for status, path in entries
    ]
    return _avro(_ENTRY, records, codec)


def manifest_list(manifests: Sequence[str], codec: str = "deflate") -> bytes:
    """A manifest list."""
    return _avro(_LIST, [{"manifest_path": path, "manifest_length": 1} for path in manifests], codec)


def _avro(schema: dict[str, Any], records: list[dict[str, Any]], codec: str) -> bytes:
    out = BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()
