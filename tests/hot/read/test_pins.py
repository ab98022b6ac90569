"""What is pinned, and what is refused."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.hot.read.world import HotWorld, row
from tests.hot.support import PATIENCE, grow, remove

import frazil
from frazil.core.errors import (
    BadRecord,
    HistoryChanged,
    InvalidInput,
    NotFound,
    SourceChanged,
    Unavailable,
)
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.hot.read import pins as module
from frazil.hot.read.arrow import tail_read
from frazil.hot.read.pins import Pinned, Pins, _position, lag, pinned, pinned_schema
from frazil.hot.read.sql import query
from frazil.hot.read.stream import follow
from frazil.hot.table import TIERING, Binding, HotTable
from frazil.hot.tiering.feed import HotFeed
from frazil.lake.authority import MetadataHistory
from frazil.stream.kafka.log import LogView, Topic


def test_pins_are_text() -> None:
    pins = Pins(
        table="a.b", uuid="u", snapshot=7, topic="a.b", topic_id="t", starts=(1, 2), ends=(5, 2), row=3, at=9
    )
    assert Pins.decode(pins.encode()) == pins
    assert str(pins) == "a.b: snapshot 7, log up to 0:5 1:2 (4 of them not in the snapshot)"
    assert [(one.partition, len(one)) for one in pins.slices()] == [(0, 4)]
    with pytest.raises(InvalidInput, match="no pins"):
        Pins.decode('{"table": 1}')
    with pytest.raises(InvalidInput, match="upgrade"):
        Pins.decode('{"v": 2, "table": "a.b", "uuid": "u"}')


def test_a_damaged_stamp_tells_whose_it_is() -> None:
    """A query may be of many tables."""
    binding = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
    table = HotTable(("a",), "b", binding, Schema((Field("id", "long"),)))
    row = {"snapshot-id": 1, "summary": {stamp_key(TIERING): "?"}}
    with pytest.raises(InvalidInput, match=r"the hot table a\.b: a damaged stamp"):
        _position(table, MetadataHistory({"snapshots": [row], "current-snapshot-id": 1}))


def test_columns_that_the_table_does_not_know_any_more() -> None:
    """Others would be another answer."""
    documents = [{"schema-id": 1, "type": "struct", "fields": []}]
    found = Pinned(
        Pins(table="a.b", uuid="u"), ("a",), "b", {"schemas": documents, "current-schema-id": 1}, None
    )
    with pytest.raises(HistoryChanged, match=r"a\.b had when it was pinned \(schema 0\)"):
        pinned_schema(found)


@pytest.mark.parametrize(("first", "end"), [(0, 4), (6, 9)])
def test_a_log_that_lost_records_is_refused(monkeypatch: pytest.MonkeyPatch, first: int, end: int) -> None:
    """A snapshot goes up to offset 5: what comes in the place of the last records is not to be left out."""
    binding = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
    table = HotTable(("a",), "b", binding, Schema((Field("id", "long"),)))
    at = {"a.b": Position(id="T", next=(5,))}
    stamp = Stamp(pipeline=TIERING, epoch=1, round=1, token="t", source="kafka:K", positions=at)
    row = {"snapshot-id": 1, "summary": {stamp_key(TIERING): stamp.encode()}}
    view = LogView("kafka:K", {"a.b": Topic("a.b", "T", 1)}, (), {"a.b": (first,)}, {"a.b": (end,)})
    monkeypatch.setattr(module, "_log", lambda *_: SimpleNamespace(look=lambda: view))
    made, metadata = Pins(table="a.b", uuid="u"), {"snapshots": [row], "current-snapshot-id": 1}
    with pytest.raises(SourceChanged, match=r"a\.b"):
        module._with_log(made, table, metadata, {}, None, fresh=True)


def test_a_log_that_was_trimmed_is_refused(hot: HotWorld) -> None:
    table = hot.table(partitions=1)
    table.put(*map(row, range(10)))
    old = table.pin()
    table.tier()
    table.put(row(3, "new"))
    _trim(hot, table.topic, 10)
    table.check()
    for read in (table.arrow, table.spark):
        with pytest.raises(SourceChanged, match="pins are too old"):
            read(pins=old)
    table.put(row(4, "new"))
    table.flush()
    _trim(hot, table.topic, 12)
    with pytest.raises(SourceChanged, match="somebody else than tiering"):
        table.pin()


def test_a_log_that_is_trimmed_while_it_is_read(hot: HotWorld) -> None:
    """What is to be done about it is no command for pipelines."""
    table = hot.table(partitions=1).put(*map(row, range(5)))
    table.flush()
    found = pinned(hot.client, table.name)
    assert found.hot is not None
    tail = tail_read(found, found.hot.schema, table.key, {})
    assert tail is not None
    _trim(hot, table.topic, 3)
    tiering = HotFeed(found.hot.settings({})).reader()
    for read, told in ((tail.batches, "pin it again: Kafka no longer has"), (tiering.read, "")):
        with pytest.raises(SourceChanged, match=f"{told}.*frazil.hot.keep") as caught:
            list(read(found.pins.slices()))
        assert "frazil reset" not in caught.value.message


def test_a_table_never_tiered_needs_the_whole_log(hot: HotWorld) -> None:
    table = hot.table(partitions=1).put(*map(row, range(5)))
    table.flush()
    _trim(hot, table.topic, 2)
    with pytest.raises(SourceChanged, match="trimmed up to 2"):
        table.pin()


def test_a_topic_that_was_made_again_is_refused(hot: HotWorld) -> None:
    table = hot.table(partitions=1).put(row(1))
    pins = table.pin()
    remove(hot.kafka, table.topic)
    with pytest.raises(SourceChanged, match="is gone"):
        table.pin()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            hot.kafka.create_topic(table.topic, partitions=1)
            break
        except Exception:  # noqa: BLE001 - it is still being deleted
            assert time.monotonic() < deadline
            time.sleep(0.2)
    for read in (table.pin, lambda: table.arrow(pins=pins), lambda: table.spark(pins=pins)):
        with pytest.raises(SourceChanged, match="made again"):
            read()


def test_what_is_in_iceberg_needs_no_log(hot: HotWorld) -> None:
    table = hot.table(partitions=1).put(row(1)).tier()
    text = f"SELECT id FROM {table.name}"
    away = {"bootstrap.servers": "127.0.0.1:1"}
    assert query(text, catalog=hot.client, fresh=False, kafka=away).rows.to_pylist() == [{"id": 1}]
    remove(hot.kafka, table.topic)
    for engine in (None, hot.spark):
        answer = query(text, catalog=hot.client, fresh=False, spark=engine)
        assert answer.rows.to_pylist() == [{"id": 1}]
        again = query(text, catalog=hot.client, pins=answer.pins, spark=engine)
        assert again.rows.to_pylist() == [{"id": 1}]
    with pytest.raises(InvalidInput, match="no place in its log"):
        next(follow(table.name, catalog=hot.client, pins=answer.pins[0]))
    with pytest.raises(SourceChanged, match="is gone"):
        query(text, catalog=hot.client, fresh=False, max_lag=60.0)


def test_more_partitions_are_refused_where_there_is_a_key(hot: HotWorld) -> None:
    keyed, log = hot.table(partitions=1), hot.table(key=(), partitions=1)
    for table in (keyed, log):
        table.put(row(1)).tier()
        grow(hot.kafka, table.topic, 2)
    log.partitions = 2
    assert len(log.pin().ends) == 2
    with pytest.raises(SourceChanged, match="made with 1 partitions and has 2"):
        keyed.pin()
    hot.connect()
    log.put(row(2), row(3))
    log.check()


def test_a_snapshot_that_expired(hot: HotWorld) -> None:
    table = hot.table().put(row(1)).tier()
    pins = table.pin()
    table.put(row(2)).tier()
    loaded = hot.lake.load(*_parts(table.name))
    loaded.java.expireSnapshots().expireSnapshotId(pins.snapshot).commit()
    for read in (table.arrow, table.spark):
        with pytest.raises(NotFound, match="expired"):
            read(pins=pins)
    table.check()


def test_another_table_of_that_name(hot: HotWorld) -> None:
    table = hot.table().put(row(1))
    pins = table.pin()
    with pytest.raises(InvalidInput, match="not of shop\\.other"):
        frazil.read(hot.spark, "shop.other", pins=pins, catalog=hot.client)
    other = Pins.decode(pins.encode().replace(pins.uuid, "another"))
    with pytest.raises(HistoryChanged, match="made again"):
        table.arrow(pins=other)


def test_bad_records(hot: HotWorld) -> None:
    strict = hot.table(partitions=1).put(row(1))
    lenient = hot.table(partitions=1, properties={"frazil.hot.dead-letters": "hotread.letters"}).put(row(1))
    for table in (strict, lenient):
        table.send(b'{"id":2}', b"no json")
        table.send(b"no json", None)
        table.send(None, None)
        table.put(row(3))
    lenient.check()
    for read in (strict.arrow, strict.spark):
        with pytest.raises(BadRecord, match=r"offset 1: .*frazil.hot.dead-letters") as caught:
            read()
        assert caught.value.position == (strict.topic, 0, 1)


def test_records_without_a_key(hot: HotWorld) -> None:
    """In several partitions a stale row could win; one alone has all changes of a row in their order."""
    strict = hot.table()
    lenient = hot.table(properties={"frazil.hot.dead-letters": "hotread.letters"})
    for table in (strict, lenient):
        table.put(*map(row, range(4))).send(None, json.dumps(row(1, "stray")).encode())
    lenient.check()

    def followed() -> object:
        return list(follow(strict.name, catalog=hot.client, bounded=True))

    for read in (strict.arrow, strict.spark, followed):
        with pytest.raises(
            BadRecord, match=r"it has no key, and the topic has several partitions.*docs/hot.md"
        ):
            read()
    alone = hot.table(partitions=1).put(row(1, "old"))
    alone.send(None, json.dumps(row(1)).encode())
    alone.rows = [row(1)]
    alone.check()


def test_how_old_an_answer_may_be(hot: HotWorld) -> None:
    table = hot.table(partitions=1).put(row(1)).tier()
    assert table.pin(max_lag=0.0, fresh=False).tail == 0
    began = time.time()
    table.put(row(2))
    table.flush()
    time.sleep(1.1)
    found = pinned(hot.client, table.name)
    assert found.hot is not None
    # Kafka's times are whole milliseconds.
    assert 1.0 < lag(found.hot, found.pins) < time.time() - began + 0.001
    assert table.pin(max_lag=1.0).tail == 1
    assert table.pin(max_lag=3600.0).tail == 0, "the log is not read where Iceberg is fresh enough"
    assert table.pin(fresh=False).tail == 0
    with pytest.raises(Unavailable, match="behind its log, and 1 s were accepted"):
        table.pin(max_lag=1.0, fresh=False)


def test_a_commit_between_snapshot_and_ends(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends are asked for when the snapshot is known: no record is left out or counted twice."""
    table = hot.table().put(*map(row, range(5)))
    table.flush()
    real = module._log

    def tiered(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "_log", real)
        table.put(row(7)).tier()
        return real(*arguments)

    monkeypatch.setattr(module, "_log", tiered)
    pins = frazil.pin(hot.client, table.name)
    assert pins.snapshot is None
    assert sum(pins.ends) == 6
    table.check(pins)


def _trim(hot: HotWorld, topic: str, offset: int) -> None:
    for future in hot.kafka.admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(PATIENCE)


def _parts(name: str) -> tuple[tuple[str, ...], str]:
    namespace, _, table = name.partition(".")
    return (namespace,), table
