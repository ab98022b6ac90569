from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest

# Before anything of DataHub is imported: it would report its use to its makers.
os.environ["DATAHUB_TELEMETRY_ENABLED"] = "false"


@pytest.fixture(scope="session", autouse=True)
def no_look_for_releases() -> Iterator[None]:
    """Each run of DataHub's asks the network for its newest release, and leaves the question under way: it
    would end in whatever test comes later."""
    with mock.patch("datahub.ingestion.run.pipeline.retrieve_version_stats", return_value=None):
        yield
