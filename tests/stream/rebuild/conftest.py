"""What the tests of rebuilds share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stream.world import World

from frazil.client import Client
from frazil.lake.catalog import Lake


@pytest.fixture
def lake(world: World) -> Iterator[Lake]:
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        lake = Lake(world.spark, client)
        yield lake
        lake.close()
