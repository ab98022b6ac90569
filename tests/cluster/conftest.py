"""One standalone cluster for these tests: it is heavy, and all of them can share it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.devstack.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2, cores=1, memory="512m") as found:
        yield found
