"""The content files of a snapshot, from its manifests: each of those is read once and then kept."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro

from frazil.core.errors import Unsupported
from frazil.lake.manifest_avro import manifest_records, read_manifest
from frazil.lake.position_deletes import PATH_ID
from frazil.lake.storage import Inputs
from frazil.lake.transforms import json_value

_DELETED = 2
_READERS = 8
_EXACT = Context(prec=80)
DATA, POSITIONS, EQUALITY = 0, 1, 2
_LIST = {"manifest_path", "partition_spec_id", "sequence_number"}
_ENTRY = {"status", "sequence_number"}
_FILE = {
    "content",
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "null_value_counts",
    "lower_bounds",
    "upper_bounds",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
}
#: Not in every version of the format.
_LATER = {"content", "sequence_number", *_FILE} - {"file_path", "file_format", "partition", "record_count"}


@dataclass(frozen=True)
class ContentFile:
    """A data or delete file that is part of a table."""

    path: str
    format: str
    #: DATA, POSITIONS or EQUALITY.
    content: int
    records: int
    size: int
    spec_id: int
    #: By the spec's field ids, in JSON's form.
    partition: Mapping[int, Any]
    #: Of its data: a delete file reaches back to data files that are no younger.
    sequence: int
    #: By field id, of the columns that were asked for, in Iceberg's binary form.
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    #: The one data file that a file of positions is about.
    references: str | None = None
    offset: int | None = None
    length: int | None = None
    equality_ids: tuple[int, ...] = ()

    @property
    def is_vector(self) -> bool:
        return self.format == "puffin"

    def to_json(self) -> dict[str, Any]:
        """As the REST spec writes it, without the metrics: enough to remove it from the table."""
        document = {
            "spec-id": self.spec_id,
            "content": ("data", "position-deletes", "equality-deletes")[self.content],
            "file-path": self.path,
            "file-format": self.format,
            "partition": {str(key): value for key, value in self.partition.items() if value is not None},
            "file-size-in-bytes": self.size,
            "record-count": self.records,
            "referenced-data-file": self.references,
            "content-offset": self.offset,
            "content-size-in-bytes": self.length,
        }
        return {key: value for key, value in document.items() if value is not None}


class Manifests:
    """Those of one table, for one set of columns."""

    def __init__(self, columns: Iterable[int], most: int = 200_000) -> None:
        """`columns`: ids of those whose bounds are kept; `most`: files to remember."""
        self.columns = frozenset(columns)
        self._bounded = self.columns | {PATH_ID}
        self._most = most
        self._kept: OrderedDict[str, tuple[ContentFile, ...]] = OrderedDict()
        self._count = 0

    def live(self, storage: Inputs, manifest_list: str) -> list[ContentFile]:
        """All content files of the snapshot with that manifest list."""
        manifests = [
            _Manifest(
                str(row["manifest_path"]),
                int(row["partition_spec_id"]),
                int(row.get("sequence_number") or 0),
            )
            for row in manifest_records(
                manifest_list, read_manifest(storage, manifest_list), _LIST, later=_LATER
            )
        ]
        unknown = [each for each in manifests if each.path not in self._kept]
        if len(unknown) > 1:
            with ThreadPoolExecutor(min(_READERS, len(unknown))) as pool:
                contents = list(pool.map(lambda each: read_manifest(storage, each.path), unknown))
        else:
            contents = [read_manifest(storage, each.path) for each in unknown]
        parsed = {each.path: self._parsed(each, data) for each, data in zip(unknown, contents, strict=True)}
        found: list[ContentFile] = []
        for each in manifests:
            found += parsed[each.path] if each.path in parsed else self._kept[each.path]
        self._keep(parsed, manifests)
        return found

    def _keep(self, parsed: Mapping[str, tuple[ContentFile, ...]], used: Sequence[_Manifest]) -> None:
        for path, files in parsed.items():
            self._kept[path] = files
            self._count += len(files)
        for each in used:
            self._kept.move_to_end(each.path)
        while self._count > self._most and self._kept:
            self._count -= len(self._kept.popitem(last=False)[1])

    def _parsed(self, manifest: _Manifest, data: bytes) -> tuple[ContentFile, ...]:
        kinds = _partition_kinds(manifest.path, data)
        return tuple(
            self._file(manifest, entry, kinds)
            for entry in manifest_records(manifest.path, data, _ENTRY, _FILE, later=_LATER)
            if entry["status"] != _DELETED
        )

    def _file(
        self, manifest: _Manifest, entry: Mapping[str, Any], kinds: Mapping[str, tuple[int, str]]
    ) -> ContentFile:
        row, sequence = entry["data_file"], entry.get("sequence_number")
        lower, upper = self._bounds(row.get("lower_bounds")), self._bounds(row.get("upper_bounds"))
        content = int(row.get("content") or 0)
        references = row.get("referenced_data_file")
        if (
            references is None
            and content == POSITIONS
            and lower.get(PATH_ID) == upper.get(PATH_ID) is not None
        ):
            references = lower[PATH_ID].decode()
        return ContentFile(
            path=str(row["file_path"]),
            format=str(row["file_format"]).lower(),
            content=content,
            records=int(row["record_count"]),
            size=int(row["file_size_in_bytes"]),
            spec_id=manifest.spec_id,
            partition={
                kinds[name][0]: _json_value(kinds[name][1], value) for name, value in row["partition"].items()
            },
            # Null in files that came with the manifest.
            sequence=manifest.sequence if sequence is None else int(sequence),
            lower=lower,
            upper=upper,
            nulls=self._bounds(row.get("null_value_counts")),
            references=references,
            offset=row.get("content_offset"),
            length=row.get("content_size_in_bytes"),
            equality_ids=tuple(row.get("equality_ids") or ()),
        )

    def _bounds(self, pairs: Sequence[Mapping[str, Any]] | None) -> dict[int, Any]:
        return {pair["key"]: pair["value"] for pair in pairs or () if pair["key"] in self._bounded}


@dataclass(frozen=True)
class _Manifest:
    path: str
    spec_id: int
    sequence: int


def _partition_kinds(path: str, data: bytes) -> dict[str, tuple[int, str]]:
    """Of each partition field, by its name in the file: its id, and the type of its values."""
    written = fastavro.reader(BytesIO(data)).metadata["avro.schema"]
    file = next(each for each in json.loads(written)["fields"] if each["name"] == "data_file")["type"]
    partition = next(each for each in file["fields"] if each["name"] == "partition")["type"]
    return {each["name"]: (int(each["field-id"]), _kind(path, each["type"])) for each in partition["fields"]}


def _kind(path: str, written: Any) -> str:
    """Iceberg's word for a type of Avro."""
    if isinstance(written, list):
        written = next((each for each in written if each != "null"), "int")
    if isinstance(written, str):
        return {"bytes": "binary"}.get(written, written)
    match written.get("logicalType"):
        case "date":
            return "date"
        case "time-micros":
            return "time"
        case "timestamp-micros":
            return "timestamptz" if written.get("adjust-to-utc", False) else "timestamp"
        case "decimal":
            return f"decimal({written['precision']}, {written['scale']})"
        case "uuid":
            return "uuid"
        case None:
            return f"fixed[{written['size']}]" if written["type"] == "fixed" else _kind(path, written["type"])
    raise Unsupported(f"{path} has partition values of the type {written}, which frazil does not know")


def _json_value(kind: str, value: Any) -> Any:
    if value is not None and kind.startswith("decimal"):
        scale = int(kind.rpartition(",")[2].rstrip(")"))
        value = Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
    return None if value is None else json_value(kind, value)
