"""The names that DataHub knows things by, the same that its own sources give."""

from __future__ import annotations

from dataclasses import dataclass

from datahub.emitter.mce_builder import (
    make_data_platform_urn,
    make_dataplatform_instance_urn,
    make_schema_field_urn,
)
from datahub.metadata.schema_classes import DataPlatformInstanceClass
from datahub.metadata.urns import DataFlowUrn, DataJobUrn, DatasetUrn

from frazil.lineage.model import Dataset


@dataclass(frozen=True)
class Orchestrator:
    """What runs the jobs: its platform, and which of several instances of it."""

    platform: str
    env: str = "PROD"
    platform_instance: str | None = None

    def flow(self, name: str) -> DataFlowUrn:
        id_ = name if self.platform_instance is None else f"{self.platform_instance}.{name}"
        return DataFlowUrn(self.platform, id_, self.env)

    def job(self, flow: str, name: str) -> DataJobUrn:
        return DataJobUrn(self.flow(flow), name)

    def instance(self) -> DataPlatformInstanceClass:
        urn = None
        if self.platform_instance is not None:
            urn = make_dataplatform_instance_urn(self.platform, self.platform_instance)
        return DataPlatformInstanceClass(platform=make_data_platform_urn(self.platform), instance=urn)


def dataset_urn(dataset: Dataset) -> DatasetUrn:
    """An instance, where there is one, is the first part of the name."""
    name = dataset.name
    if dataset.platform_instance is not None:
        name = f"{dataset.platform_instance}.{name}"
    return DatasetUrn(make_data_platform_urn(dataset.platform), name, dataset.env)


def field_urn(dataset: Dataset, column: str) -> str:
    """A column of a dataset."""
    return str(make_schema_field_urn(str(dataset_urn(dataset)), column))
