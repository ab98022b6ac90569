from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.catalog.identity.world import World, opened


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A server with two identity providers and a static token; shared, so leave its settings alone."""
    with opened() as found:
        yield found
