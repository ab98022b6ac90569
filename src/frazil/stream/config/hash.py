"""The hash of a pipeline: whether it is still the one that wrote a commit."""

from __future__ import annotations

import hashlib
from typing import Any

from frazil.core.schema import show_type
from frazil.core.stamp import config_hash
from frazil.stream.config.functions import fingerprint
from frazil.stream.config.model import (
    AvroFormat,
    Contract,
    CsvFormat,
    DebeziumFormat,
    FileSource,
    Format,
    JsonFormat,
    KafkaSource,
    MetadataColumns,
    PipelineConfig,
    ProtobufFormat,
    SensorSource,
    Source,
)
from frazil.stream.postgres.source import PostgresSource


def pipeline_hash(pipeline: PipelineConfig) -> str:
    """Of everything that decides which rows land where; no setting of the source, no starting point."""
    transform = pipeline.transform
    does: list[str | None] | None = None
    if transform is not None:
        print_ = fingerprint(transform.function) if transform.function is not None else None
        does = [transform.sql, transform.reference, print_]
    document = {
        **_source(pipeline.source),
        "format": _format(pipeline.format),
        "schema": [[field.name, show_type(field.type), field.required] for field in pipeline.schema],
        "transform": does,
        "table": [*pipeline.table.namespace, pipeline.table.name],
        "partitioning": [[field.source, field.transform] for field in pipeline.table.partitioning],
    }
    # Only what is not the default: a pipeline keeps its hash when frazil learns something new.
    if pipeline.metadata != MetadataColumns():
        document["metadata"] = [field.name for field in pipeline.metadata.fields()]
    if pipeline.contract != Contract():
        contract = pipeline.contract
        document["contract"] = [contract.tables, contract.columns, contract.types]
    if pipeline.dataset is not None:
        dataset = pipeline.dataset
        document["dataset"] = [*dataset.namespace, dataset.name, dataset.format]
    if pipeline.stateful is not None:
        document["stateful"] = pipeline.stateful.lateness
    if pipeline.changes is not None:
        changes = pipeline.changes
        document["changes"] = [changes.mode, changes.key, changes.soft_delete]
    return config_hash(document)


def _source(source: Source) -> dict[str, Any]:
    match source:
        case KafkaSource():
            return {"topics": sorted(source.topics), "pattern": source.pattern}
        case FileSource():
            return {"files": [source.location, source.pattern, source.overwritten]}
        case PostgresSource():
            return {"postgres": sorted(source.tables)}
        case SensorSource():
            return {"sensors": [source.sensors, source.rate, source.seed]}
        case _:
            told = {"source_changes": True} if source.changes else {}
            return {"source_table": [*source.namespace, source.name], **told}


def _format(format_: Format) -> Any:
    match format_:
        case JsonFormat():
            return {"json": {"timestamps": format_.timestamps}}
        case CsvFormat():
            return {
                "csv": [
                    format_.delimiter,
                    format_.quote,
                    format_.header,
                    format_.null,
                    format_.timestamps,
                ]
            }
        case AvroFormat():
            return {"avro": format_.schema}
        case DebeziumFormat():
            return {
                "debezium": [
                    format_.encoding,
                    format_.envelope,
                    format_.placeholder,
                    format_.sequence_by,
                    format_.decimals,
                    sorted(format_.units.items()),
                ]
            }
        case ProtobufFormat():
            digest = hashlib.sha256(format_.descriptors or b"").hexdigest()
            return {"protobuf": [format_.message, digest]}
        case _:
            return type(format_).__name__
