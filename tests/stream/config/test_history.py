"""The history that a pipeline begins with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.stream.support import kafka_of

import frazil
from frazil.core.errors import InvalidConfig
from frazil.stream.config.model import History

_GIVEN: dict[str, Any] = {"topics": "orders", "schema": {"id": "long"}, "table": "shop.copy"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("shop.orders", History(("shop",), "orders")),
        ({"table": "a.b.c"}, History(("a", "b"), "c")),
        (
            {"table": "shop.orders", "until": "2026-01-01"},
            History(("shop",), "orders", datetime(2026, 1, 1, tzinfo=UTC)),
        ),
        (
            {"table": "shop.orders", "offsets": {"orders": [3, 4]}, "snapshot": 17},
            History(("shop",), "orders", None, {"orders": (3, 4)}, 17),
        ),
    ],
)
def test_where_rows_come_from(written: Any, meant: History) -> None:
    assert kafka_of(frazil.Pipeline("copy", **_GIVEN, history=written)).history == meant


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"history": "shop.orders", "start": "latest"}, "leave 'start' out"),
        ({"history": {"until": "2026-01-01"}}, "lacks 'table'"),
        ({"history": {"table": "a.b", "until": "soon"}}, "'soon' is no time"),
        ({"history": {"table": "a.b", "snapshot": 4}}, "say by 'offsets' where the log goes on"),
        ({"history": {"table": "a.b", "offsets": {}}}, "there are no offsets"),
        (
            {"history": {"table": "a.b", "offsets": {"clicks": [0]}}},
            "offsets for 'clicks', which is not read",
        ),
        (
            {"history": {"table": "a.b", "offsets": {"orders": [0]}, "until": "2026-01-01"}},
            "a snapshot is chosen by 'until', or its 'offsets' are given",
        ),
        ({"history": "a.b", "table": "a.{topic}"}, "name the table without {topic}"),
        ({"history": "a.b", "table": None, "dataset": "a.files"}, "a dataset cannot take it"),
        (
            {
                "history": "a.b",
                "topics": ["x.a.b", "x.a.c"],
                "table": "a.{table}",
                "format": "debezium",
                "schema": None,
            },
            "this is the history of one; read one topic",
        ),
        (
            {"source": {"table": "a.b", "history": "a.c"}, "topics": None, "schema": None},
            "history: this source has no such key",
        ),
    ],
)
def test_what_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        frazil.Pipeline("copy", **{**_GIVEN, **options})
    assert said in str(raised.value)


def test_where_it_begins_does_not_change_what_it_is() -> None:
    with_history = frazil.Pipeline("copy", **_GIVEN, history="shop.orders")
    assert with_history.hash == frazil.Pipeline("copy", **_GIVEN).hash
