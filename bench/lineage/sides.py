"""The two sources for DataHub, run as `datahub ingest` runs them, and what they said."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from bench.lineage.jobs import JOBS
from bench.lineage.score import ColumnEdge, Said, truth

Kind = Literal["frazil-flink", "flink"]

_JOB, _EDGES = "dataJobInfo", "dataJobInputOutput"
_KNOWN = frozenset(name for job in JOBS for name in (*truth(job).reads, *truth(job).writes))


def emitted(kind: Kind, settings: Mapping[str, Any], folder: Path) -> dict[str, Said]:
    """What a source with these settings gives, by job; nothing said of one is also an answer."""
    file = folder / f"{kind}.json"
    ingest(kind, settings, file)
    found: dict[str, Said] = {}
    for record in json.loads(file.read_text()):
        if record.get("aspectName") == _JOB:
            found.setdefault(_job(record), Said())
        elif record.get("aspectName") == _EDGES:
            found[_job(record)] = _said(record["aspect"]["json"])
    return found


def ingest(kind: Kind, settings: Mapping[str, Any], file: Path) -> None:
    """All that a source with these settings gives, into a file."""
    # Before anything of DataHub is imported: it would report its use to its makers.
    os.environ["DATAHUB_TELEMETRY_ENABLED"] = "false"
    from datahub.ingestion.run.pipeline import Pipeline

    recipe = {
        "source": {"type": kind, "config": dict(settings)},
        "sink": {"type": "file", "config": {"filename": str(file)}},
    }
    # Each run would ask the network for DataHub's newest release, and leave the question under way.
    with mock.patch("datahub.ingestion.run.pipeline.retrieve_version_stats", return_value=None):
        Pipeline.create(recipe).run()


def _job(record: Mapping[str, Any]) -> str:
    from datahub.metadata.urns import DataFlowUrn, DataJobUrn

    return DataFlowUrn.from_string(DataJobUrn.from_string(record["entityUrn"]).flow).flow_id


def _said(aspect: Mapping[str, Any]) -> Said:
    return Said(
        frozenset(_used(aspect, "inputDatasets")),
        frozenset(_used(aspect, "outputDatasets")),
        frozenset(_columns(aspect)),
    )


def _used(aspect: Mapping[str, Any], name: str) -> Iterator[str]:
    """Written in one of two ways."""
    yield from map(_dataset, aspect.get(name) or ())
    for edge in aspect.get(f"{name.removesuffix('s')}Edges") or ():
        yield _dataset(edge["destinationUrn"])


def _columns(aspect: Mapping[str, Any]) -> Iterator[ColumnEdge]:
    for one in aspect.get("fineGrainedLineages") or ():
        for upstream in map(_field, one.get("upstreams") or ()):
            for downstream in map(_field, one.get("downstreams") or ()):
                yield (*upstream, *downstream, "")


def _field(urn: str) -> tuple[str, str]:
    from datahub.metadata.urns import SchemaFieldUrn

    found = SchemaFieldUrn.from_string(urn)
    return _dataset(found.parent), found.field_path


def _dataset(urn: str) -> str:
    """As the truth writes it; the name may have more in front, such as the catalog."""
    from datahub.metadata.urns import DatasetUrn

    found = DatasetUrn.from_string(urn)
    platform = found.platform.rpartition(":")[2]
    for known in _KNOWN:
        kind, _, name = known.partition(":")
        if kind == platform and found.name.endswith(f".{name}"):
            return known
    return f"{platform}:{found.name}"
