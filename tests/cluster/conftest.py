"""One standalone cluster for the tests of a module: it is heavy, and nobody else needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.devstack.spark_cluster import SparkCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2, cores=1, memory="512m") as found:
        yield found
