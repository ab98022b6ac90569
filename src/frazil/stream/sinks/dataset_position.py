"""How far a pipeline is in its dataset, by the files alone: for commands that start no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from frazil.client import Client
from frazil.core.stamp import Stamp
from frazil.stream.config.model import PipelineConfig
from frazil.stream.sinks.dataset_formats import EXTENSIONS
from frazil.stream.sinks.dataset_place import file_name, is_local, newest_stamp, place_of


@dataclass(frozen=True)
class DatasetPosition:
    location: str
    #: Of the newest file; None: the pipeline never wrote one.
    stamp: Stamp | None = None
    committed_at: datetime | None = None


def dataset_position(config: PipelineConfig, client: Client) -> DatasetPosition:
    """NotFound: there is no such generic table."""
    assert config.dataset is not None, "this is for datasets"
    where = (config.dataset.namespace, config.dataset.name)
    location = client.generic_tables.load(*where).location
    keys = None if is_local(location) else client.generic_tables.credentials(*where, read_only=True)
    place, extension = place_of(location, keys), EXTENSIONS[config.dataset.format]
    number, stamp = newest_stamp(place, config.name, extension)
    if stamp is None:
        return DatasetPosition(location)
    return DatasetPosition(location, stamp, place.written_at(file_name(config.name, number, extension)))
