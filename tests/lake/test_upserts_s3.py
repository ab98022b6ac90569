"""Rows replaced by key on an object store, with keys that reach no further than the table."""

from __future__ import annotations

import random

import pytest
from pyiceberg.catalog import load_catalog
from tests.lake.test_upserts import Shape, rounds
from tests.lake.upserts import KeyedWorld, check_same, shown

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.catalog import Lake


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_on_s3(
    version: int, frazil_sqlite: FrazilServer, object_store: ObjectStore, lake: Lake
) -> None:
    profile, credential = object_store.warehouse_storage(f"upserts-{version}", "keyed")
    shape, rng = Shape(partitioning=("bucket(3, id)",), version=version), random.Random(6)
    with Client(frazil_sqlite.uri) as client:
        warehouse = client.warehouses.create(f"upserts-{version}", profile, credential).name
    with Client(frazil_sqlite.uri, warehouse=warehouse) as client:
        far = Lake(lake.spark, client)
        world = KeyedWorld(far, client, schema=shape.schema, partitioning=shape.partitioning, version=version)
        assert world.table.location.startswith("s3")
        rounds(world, shape, rng, 3)
        catalog = load_catalog("reader", type="rest", uri=f"{client.uri}/catalog", warehouse=warehouse)
        loaded = catalog.load_table((*world.table.namespace, world.table.name))
        check_same(loaded.scan().to_arrow(), [shown(row) for row in world.model.values()])
        far.close()
