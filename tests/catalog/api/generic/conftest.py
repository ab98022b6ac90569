from __future__ import annotations

import pytest
from tests.catalog.api.client import Catalog
from tests.catalog.api.generic.support import Generic


@pytest.fixture
def generic(catalog: Catalog) -> Generic:
    """The generic tables of the default warehouse."""
    return Generic(catalog.client, catalog.prefix)
