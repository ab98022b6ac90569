"""That the check of the emitted metadata finds what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lineage.datahub.validating import problems

URN = "urn:li:dataFlow:(flink,orders,PROD)"


def record(**changes: Any) -> dict[str, Any]:
    right = {
        "entityType": "dataFlow",
        "entityUrn": URN,
        "aspectName": "dataFlowInfo",
        "aspect": {"json": {"name": "orders", "customProperties": {}}},
    }
    return {**right, **changes}


def test_what_is_right_passes() -> None:
    assert problems([record()]) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (record(aspectName="dataFlowInformation"), "no such aspect"),
        (record(aspectName="schemaMetadata"), "no aspect of a dataFlow"),
        (record(entityUrn="urn:li:dataFlow:(flink,orders)"), "urn:li:dataFlow:"),
        (record(entityUrn="urn:li:dataset:(urn:li:dataPlatform:kafka,a,PROD)"), "not the URN"),
        (record(aspect={"json": {"name": "orders", "colour": "x"}}), "unknown fields"),
        (
            record(aspect={"json": {"name": "orders", "externalUrl": "urn:li:dataset:(x,y)"}}),
            "urn:li:dataset",
        ),
    ],
)
def test_what_is_wrong_is_found(wrong: dict[str, Any], says: str) -> None:
    found = problems([wrong])
    assert any(says in problem for problem in found), found
