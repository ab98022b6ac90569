"""Datasets: that they exist, what holds them, and their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from datahub.emitter.mce_builder import make_data_platform_urn
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.mcp_builder import DatabaseKey, gen_containers
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.metadata.schema_classes import (
    ArrayTypeClass,
    BooleanTypeClass,
    BytesTypeClass,
    ContainerClass,
    DateTypeClass,
    MapTypeClass,
    NullTypeClass,
    NumberTypeClass,
    OtherSchemaClass,
    RecordTypeClass,
    SchemaFieldClass,
    SchemaFieldDataTypeClass,
    SchemaMetadataClass,
    StringTypeClass,
    TimeTypeClass,
)

from frazil.lineage.datahub.urns import Orchestrator, dataset_urn
from frazil.lineage.model import Dataset
from frazil.lineage.tables import CatalogTable, Database, TableColumn

_WORD = re.compile(r"[a-z_]+")
_TYPES: dict[str, type] = {
    **dict.fromkeys(("boolean",), BooleanTypeClass),
    **dict.fromkeys(
        (
            "tinyint",
            "smallint",
            "int",
            "integer",
            "bigint",
            "long",
            "float",
            "double",
            "decimal",
            "numeric",
            "dec",
        ),
        NumberTypeClass,
    ),
    **dict.fromkeys(("string", "varchar", "char", "uuid"), StringTypeClass),
    **dict.fromkeys(("bytes", "binary", "varbinary", "fixed"), BytesTypeClass),
    **dict.fromkeys(("date",), DateTypeClass),
    **dict.fromkeys(
        ("time", "timestamp", "timestamp_ltz", "timestamptz", "timestamp_ns", "timestamptz_ns", "interval"),
        TimeTypeClass,
    ),
    **dict.fromkeys(("row", "struct"), RecordTypeClass),
    **dict.fromkeys(("array", "list", "multiset"), ArrayTypeClass),
    **dict.fromkeys(("map",), MapTypeClass),
}


def dataset_proposal(dataset: Dataset) -> MetadataChangeProposalWrapper:
    """Only that it exists: everything else about it belongs to its own platform's source."""
    urn = dataset_urn(dataset)
    return MetadataChangeProposalWrapper(entityUrn=str(urn), aspect=urn.to_key_aspect())


def database_units(orchestrator: Orchestrator, database: Database) -> Iterator[MetadataWorkUnit]:
    """A database of a catalog, as a container."""
    yield from gen_containers(
        _key(orchestrator, database),
        name=database.name,
        sub_types=["Database"],
        extra_properties={"catalog": database.catalog},
        qualified_name=f"{database.catalog}.{database.name}",
    )


def table_proposals(orchestrator: Orchestrator, table: CatalogTable) -> list[MetadataChangeProposalWrapper]:
    """A table's columns, and the database that holds it."""
    urn = str(dataset_urn(table.dataset))
    schema = SchemaMetadataClass(
        schemaName=table.dataset.name,
        platform=make_data_platform_urn(table.dataset.platform),
        version=0,
        hash="",
        platformSchema=OtherSchemaClass(rawSchema=""),
        fields=[_field(column, column.name in table.primary_key) for column in table.columns],
        primaryKeys=list(table.primary_key) or None,
    )
    container = ContainerClass(container=_key(orchestrator, table.database).as_urn())
    return list(MetadataChangeProposalWrapper.construct_many(urn, [schema, container]))


def _field(column: TableColumn, key: bool) -> SchemaFieldClass:
    word = _WORD.match(column.type.lower())
    kind = _TYPES.get(word.group() if word else "", NullTypeClass)
    return SchemaFieldClass(
        fieldPath=column.name,
        type=SchemaFieldDataTypeClass(type=kind()),
        nativeDataType=column.type,
        nullable=column.nullable,
        isPartOfKey=key,
    )


def _key(orchestrator: Orchestrator, database: Database) -> DatabaseKey:
    return DatabaseKey(
        platform=orchestrator.platform,
        instance=orchestrator.platform_instance,
        env=orchestrator.env,
        database=f"{database.catalog}.{database.name}",
    )
