"""What the logs of hot tables are refused for."""

from __future__ import annotations

import pytest

from frazil.core.errors import SourceChanged
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Position, Stamp
from frazil.hot.table import TIERING, Binding, HotTable
from frazil.hot.tiering.feed import HotFeed
from frazil.stream.config.model import Limits
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.rounds import RoundPlan

_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)))
_AT = {"a.b": Position(id="T", next=(5,))}
_STAMP = Stamp(pipeline=TIERING, epoch=1, round=1, token="t", source="kafka:K", positions=_AT)


def _feed(monkeypatch: pytest.MonkeyPatch, view: LogView) -> HotFeed:
    """As if that was what Kafka says."""
    monkeypatch.setattr(KafkaLog, "look_at_each", lambda *_, **__: view)
    feed = HotFeed({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    feed.follow({"a.b": _TABLE})
    return feed


@pytest.mark.parametrize(
    ("first", "end", "told"),
    [
        (6, 9, "1 offsets of a.b-0 were removed before they were read (5 to 6)"),
        (0, 4, "a.b-0 was read up to 5 and now ends at 4: the log lost records"),
    ],
)
def test_a_log_that_lost_records(monkeypatch: pytest.MonkeyPatch, first: int, end: int, told: str) -> None:
    """What is to be done about it is no command for pipelines."""
    view = LogView("kafka:K", {"a.b": Topic("a.b", "T", 1)}, (), {"a.b": (first,)}, {"a.b": (end,)})
    feed = _feed(monkeypatch, view)
    with pytest.raises(SourceChanged) as caught:
        feed.plan("a.b", _STAMP, Limits())
    message = caught.value.message
    assert message.startswith(f"the hot table a.b cannot go on: {told}. ")
    assert "create another hot table" in message
    assert "frazil reset" not in message


def test_a_topic_that_was_made_again_while_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    view = LogView("kafka:K", {"a.b": Topic("a.b", "U", 1)}, (), {"a.b": (0,)}, {"a.b": (9,)})
    feed = _feed(monkeypatch, view)
    with pytest.raises(SourceChanged) as caught:
        feed.confirm(_STAMP, RoundPlan((), _AT, 0, {"a.b": (0,)}))
    assert caught.value.message.startswith("the topic a.b of the hot table a.b was deleted and made again")
    assert "frazil reset" not in caught.value.message
