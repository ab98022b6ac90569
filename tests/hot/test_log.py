"""Whether a log is that of its table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.core.errors import SourceChanged
from frazil.core.schema import Field, Schema
from frazil.hot.log import require_topic
from frazil.hot.table import Binding, HotTable
from frazil.stream.kafka.log import LogView, Topic

_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)), buckets=4)
_VIEW = LogView("kafka:K", {"a.b": Topic("a.b", "T", 4)}, (), {"a.b": (0,) * 4}, {"a.b": (0,) * 4})


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_number_of_buckets_that_somebody_changed(key: tuple[str, ...]) -> None:
    """No topic loses partitions: nothing is lost, and there is nothing to be written anew."""
    table = replace(_TABLE, key=key)
    assert require_topic(table, _VIEW).partitions == 4
    with pytest.raises(SourceChanged, match=r"'?bucket\.num'? of the hot table a\.b is 8.*Set it to 4 again"):
        require_topic(replace(table, buckets=8), _VIEW)
