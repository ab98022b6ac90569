"""Warehouses for datasets."""

from __future__ import annotations

import pytest
from tests.stream.sinks.shelf import Shelf, bucket_shelf

from frazil.devstack.frazil_server import FrazilServer


@pytest.fixture(scope="session")
def local_datasets(frazil_sqlite: FrazilServer) -> Shelf:
    return Shelf(frazil_sqlite)


@pytest.fixture(scope="session")
def s3_datasets(request: pytest.FixtureRequest, frazil_sqlite: FrazilServer) -> Shelf:
    return bucket_shelf(frazil_sqlite, request.getfixturevalue("object_store"))


@pytest.fixture
def datasets(request: pytest.FixtureRequest) -> Shelf:
    """The storage that the test's parameter names: `local` or `s3`."""
    found: Shelf = request.getfixturevalue(f"{request.param}_datasets")
    return found
