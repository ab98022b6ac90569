"""How batches of a streaming read are cut, without a service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.core.errors import SourceChanged
from frazil.core.schema import Field, Schema
from frazil.hot.read.stream_plan import Following, Planner, StreamOffset
from frazil.hot.table import Binding, HotTable
from frazil.stream.kafka.log import LogView, Topic

_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)))


def _planner(end: int) -> Planner:
    view = LogView("kafka:K", {"a.b": Topic("a.b", "T", 1)}, (), {"a.b": (0,)}, {"a.b": (end,)})
    made = Planner(Following("a.b", {"uri": "http://127.0.0.1:1"}, {}, 0, 10, 1))
    made._log = _TABLE, cast("Any", SimpleNamespace(look=lambda: view))
    return made


def test_a_log_that_lost_records_is_refused() -> None:
    """What comes in their place would be left out."""
    at = StreamOffset(uuid="u", topic_id="T", first=(0,), next=(5,))
    assert _planner(5).after(at) == at
    assert _planner(7).after(at).next == (7,)
    with pytest.raises(SourceChanged, match="read up to 5 and now ends at 4"):
        _planner(4).after(at)
