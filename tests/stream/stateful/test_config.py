"""The key `stateful`: what it takes, and what goes with it."""

from __future__ import annotations

from typing import Any

import pytest

import frazil
from frazil.core.errors import InvalidConfig
from frazil.stream.config.model import PipelineConfig, StatefulConfig

COUNT = "SELECT window(at, '1 hour') AS hour, count(*) AS events FROM source GROUP BY 1"


def made(**settings: Any) -> PipelineConfig:
    given: dict[str, Any] = {
        "topics": "t",
        "schema": {"at": "timestamptz"},
        "event_time": "at",
        "transform": COUNT,
        "table": "shop.t",
    }
    return frazil.Pipeline(
        "p", **{key: value for key, value in (given | settings).items() if value is not None}
    )


def test_a_folder_is_enough() -> None:
    assert made(stateful="/state/p/").stateful == StatefulConfig("/state/p")
    both = made(stateful={"checkpoint": "s3a://bucket/p", "lateness": "10m"})
    assert both.stateful == StatefulConfig("s3a://bucket/p", 600.0)


def test_the_hash_is_of_what_decides_about_rows() -> None:
    one = made(stateful={"checkpoint": "/a", "lateness": "10m"})
    assert one.hash == made(stateful={"checkpoint": "/b", "lateness": "600s"}).hash
    assert one.hash != made(stateful={"checkpoint": "/a", "lateness": "11m"}).hash
    assert made().hash != made(stateful="/a").hash


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stateful": "state"}, "no folder: write an absolute path"),
        ({"stateful": "s3://bucket/p"}, "Spark calls it s3a"),
        ({"stateful": "/s", "transform": None}, "there is no transform that could keep state"),
        ({"stateful": "/s", "table": None, "dataset": "shop.d"}, "a dataset cannot take it"),
        ({"stateful": {"lateness": "1m"}}, "checkpoint"),
        (
            {"stateful": {"checkpoint": "/s", "lateness": "1m"}, "event_time": None},
            "say by 'event_time' which column",
        ),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        made(**settings)
