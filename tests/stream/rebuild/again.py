"""Rebuilds in this process, and what is asked of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.stream.crash.tables import Shelf
from tests.stream.world import World

from frazil.client import Client
from frazil.core.errors import FrazilError
from frazil.core.stamp import Stamp
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import CatalogConfig, Pipelines
from frazil.stream.config.python import gather
from frazil.stream.rebuild.loop import Rebuilt, Wishes
from frazil.stream.rebuild.run import Rebuilds, rebuild

Rows = Counter[tuple[Any, ...]]


def gathered(world: World, *pipelines: PipelineConfig) -> Pipelines:
    catalog = CatalogConfig(world.server.uri, world.warehouse)
    servers = {"bootstrap.servers": world.kafka.bootstrap_servers}
    return gather(pipelines, catalog=catalog, kafka=servers)


def rebuilds(world: World, pipeline: PipelineConfig, **wishes: Any) -> Rebuilds:
    """One that is to be run."""
    return Rebuilds(gathered(world, pipeline), world.spark, observer=world.seen, wishes=Wishes(**wishes))


def rebuilt(world: World, pipeline: PipelineConfig, **wishes: Any) -> Rebuilt:
    """What came of it; its error is raised."""
    results, errors = tried(world, pipeline, **wishes)
    for error in errors.values():
        raise error
    return results[pipeline.name]


def tried(
    world: World, pipeline: PipelineConfig, **wishes: Any
) -> tuple[Mapping[str, Rebuilt], Mapping[str, FrazilError]]:
    return rebuild(gathered(world, pipeline), world.spark, observer=world.seen, wishes=Wishes(**wishes))


def counted(world: World, table: str) -> Rows:
    """Every row of the table, by an engine that is not ours."""
    return Counter(tuple(map(repr, row.values())) for row in world.rows(table, by=()))


def metadata(world: World, table: str) -> dict[str, Any]:
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        return client.tables.load("paths", table).metadata


def stamp(world: World, table: str, pipeline: PipelineConfig) -> Stamp:
    found = find_stamp(MetadataHistory(metadata(world, table)), pipeline.name)
    assert found is not None
    return found


def stray(world: World, table: str) -> set[str]:
    """Data files that no snapshot refers to."""
    return Shelf(world.server).stray_files(f"paths.{table}")
