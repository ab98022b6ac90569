"""A warehouse whose credentials are vended, on the real store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.catalog.api.client import Catalog
from tests.catalog.vending.support import BUCKET, Json, admin, create_warehouse, keys_of, warehouse_body

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

OTHER_BUCKET = "vending-tests-other"


@dataclass(frozen=True)
class Lake:
    """Tables `t1`, `t10` and `t2` side by side, with a file in each and files beside them."""

    store: ObjectStore
    catalog: Catalog
    #: The key of the folder that the tables lie in.
    parent: str
    bucket: str = BUCKET

    @property
    def inside(self) -> str:
        return f"{self.parent}/t1"

    @property
    def outside(self) -> list[tuple[str, str]]:
        """Bucket and key of files that the keys of `t1` must not reach."""
        keys = [f"{self.parent}/t10/secret", f"{self.parent}/t2/secret", f"{self.parent}/secret"]
        keys += [f"{self.parent}/t1-secret", "secret"]
        return [*((self.bucket, key) for key in keys), (OTHER_BUCKET, f"{self.inside}/secret")]

    def keys(self, headers: dict[str, str] | None = None) -> Json:
        """Vended keys of `t1`."""
        return keys_of(self.catalog.load(("ns",), "t1", headers).ok())

    def admin(self) -> Any:
        return admin(self.store)


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> Lake:
    body = warehouse_body(object_store)
    catalog = create_warehouse(frazil_sqlite.port, body)
    parent = f"{body['storage-profile']['key-prefix']}/ns"
    for name in ("t1", "t10", "t2"):
        catalog.create_table(("ns",), name, location=f"s3://{BUCKET}/{parent}/{name}").ok()
    object_store.create_bucket(OTHER_BUCKET)
    lake = Lake(object_store, catalog, parent)
    s3 = lake.admin()
    for bucket, key in lake.outside:
        s3.put_object(Bucket=bucket, Key=key, Body=b"secret")
    s3.put_object(Bucket=BUCKET, Key=f"{lake.inside}/data/file", Body=b"data")
    return lake
