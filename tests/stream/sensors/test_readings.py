"""Readings: the same ones however they are asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.sensors import SENSOR_SCHEMA, json_records, readings
from frazil.stream.source import RawBatch

ANCHOR = datetime(2026, 2, 28, 23, 59, 57, 250_000, tzinfo=UTC)
RATES = [0.0001, 1 / 3, 1.0, 7.0, 10.0, 333_333.3, 1e6]


def _decoded(values: pa.BinaryArray) -> pa.RecordBatch:
    nothing = pa.array([0] * len(values), pa.int64())
    decoded = JsonDecoder(SENSOR_SCHEMA, JsonFormat()).decode(RawBatch("s", 0, values, nothing, nothing))
    assert not decoded.bad
    return decoded.rows


@pytest.mark.parametrize("rate", RATES)
def test_text_and_rows_say_the_same(rate: float) -> None:
    for start, count in ((0, 120), (99_995, 10), (int(rate * 10**6), 20)):
        values, timestamps = json_records(7, 12, start, count, ANCHOR, rate)
        values.validate(full=True)
        rows = readings(7, 12, start, count, ANCHOR, rate)
        assert _decoded(values) == rows
        millis = rows["event_time"].cast(pa.int64()).to_numpy() // 1000
        assert timestamps.to_pylist() == millis.tolist()


@pytest.mark.parametrize("rate", RATES)
def test_how_they_are_cut_makes_no_difference(rate: float) -> None:
    whole = json_records(7, 12, 1000, 5000, ANCHOR, rate)[0].to_pylist()
    cut = [json_records(7, 12, start, 17, ANCHOR, rate)[0].to_pylist() for start in range(1000, 6000, 17)]
    assert [value for part in cut for value in part][:5000] == whole


def test_they_are_what_they_always_were() -> None:
    """Tables hold them: another formula would be another source."""
    (value,) = json_records(3, 5, 41, 1, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 10.0)[0].to_pylist()
    assert value == (
        b'{"sensor_id":"sensor-002","reading":41,"event_time":"2026-01-02T03:04:09.100000Z",'
        b'"temperature":21.06,"humidity":57.81,"pressure":1009.96}'
    )


def test_sensors_take_turns_and_times_go_on() -> None:
    rows = readings(0, 3, 2, 7, ANCHOR, 4.0)
    assert [name[-1] for name in rows["sensor_id"].to_pylist()] == list("3123123")
    assert rows["reading"].to_pylist() == list(range(2, 9))
    times = [(ANCHOR + timedelta(seconds=number / 4)) for number in range(2, 9)]
    assert rows["event_time"].to_pylist() == times


def test_seeds_differ_and_values_are_such_as_sensors_have() -> None:
    one, other = (readings(seed, 2000, 0, 50_000, ANCHOR, 10.0) for seed in (1, 2))
    assert one["temperature"] != other["temperature"]
    for batch in (one, other):
        for name, low, high in (("temperature", 14, 34), ("humidity", 41, 71), ("pressure", 1003, 1037)):
            found = batch[name].to_numpy()
            assert low < found.min() < found.mean() < found.max() < high
        assert len(set(batch["sensor_id"].to_pylist())) == 2000
        assert batch["sensor_id"][0].as_py() == "sensor-0001"


def test_none_at_all() -> None:
    assert len(readings(0, 5, 10, 0, ANCHOR, 10.0)) == 0
    assert len(json_records(0, 5, 10, 0, ANCHOR, 10.0)[0]) == 0


def test_every_record_is_json() -> None:
    for value in json_records(0, 1000, 9_990, 20, ANCHOR, 1e6)[0].to_pylist():
        assert list(json.loads(value)) == [field.name for field in SENSOR_SCHEMA]
