from __future__ import annotations

import httpx
import pytest

from frazil.core.errors import ServiceError
from frazil.devstack.registry import SchemaRegistry


def test_schemas_are_registered_and_read(registry: SchemaRegistry) -> None:
    text = '{"type":"record","name":"Devstack","fields":[{"name":"x","type":"int"}]}'
    number = registry.register("devstack-value", text)
    assert registry.register("devstack-value", text) == number
    answer = httpx.get(f"{registry.url}/schemas/ids/{number}", trust_env=False)
    assert answer.json()["schema"] == text


def test_no_schema_is_refused(registry: SchemaRegistry) -> None:
    with pytest.raises(ServiceError, match="devstack-wrong"):
        registry.register("devstack-wrong", '{"type":"record"}')
