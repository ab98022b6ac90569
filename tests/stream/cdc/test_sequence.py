"""A column that orders changes, in one round and from round to round."""

from __future__ import annotations

import itertools
import json
import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stream.world import World

from frazil.core.changes import BY_COLUMN, ORDER, Op
from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema
from frazil.lake.patches import Patches
from frazil.lake.sequence import Bounds, SequenceBy
from frazil.stream.cdc.fold import Folded, fold
from frazil.stream.config.model import PipelineConfig
from frazil.stream.events import RoundCommitted

_numbers = itertools.count(1)
SCHEMA = Schema((Field("id", "long"), Field("n", "long"), Field("a", "string"), Field("b", "string")))
HOLE = "hole"
Row = dict[str, Any]


def tables(changes: list[Row]) -> tuple[pa.Table, pa.Table]:
    """Changes as decoded, in log order. A hole in a or b is a value that was left out."""
    rows: list[Row] = []
    order: list[Row] = []
    names = [field.name for field in SCHEMA]
    for offset, change in enumerate(changes):
        values = {name: change.get(name) for name in names}
        mask = sum(1 << at for at, name in enumerate(names) if values[name] == HOLE)
        rows.append({name: None if value == HOLE else value for name, value in values.items()})
        n = change.get("n")
        order.append(
            {"op": int(change.get("op", Op.UPDATE)), "offset": offset, "ts": change.get("ts", 0)}
            | {"line": None if n is None else BY_COLUMN, "at0": n or 0, "at1": 0, "at2": 0}
            | {"holes": bytes([mask]) if mask else None}
        )
    return pa.Table.from_pylist(rows, SCHEMA.to_arrow()), pa.Table.from_pylist(order, ORDER)


def land(folded: Folded, table: dict[int, Row]) -> None:
    """What a lookup makes of it, with a dict for the table."""
    assert folded.key_values is not None
    assert folded.patch_values is not None
    patches = Patches(folded.patches, folded.holes, folded.origins) if len(folded.patches) else None
    parts = [folded.keys] if patches is None else [patches.keys, folded.keys]
    keys = pa.concat_tables(parts)
    given = SequenceBy("n", folded.key_values, folded.patch_values)
    bounds = Bounds.of(SCHEMA.field("n"), given, patches, keys)
    come = {row["id"]: row for row in folded.rows.to_pylist()}
    before, seen = dict(table), set()
    table.clear()
    for number, key in enumerate(keys.column("id").to_pylist()):
        if key in seen:
            continue
        seen.add(key)
        current = before.pop(key, None)
        at = None if current is None or current["n"] is None else np.array([current["n"]])
        if at is not None and at[0] > bounds.highest[number]:
            assert current is not None
            table[key] = current
        elif patches is not None and number < len(patches):
            sources = bounds.sources(patches, np.array([number]), at)
            row = patches.emptied(sources).to_pylist()[0]
            row |= {name: (current or {}).get(name) for name, source in sources.items() if source[0] < 0}
            table[row["id"]] = row
        elif key in come:
            table[key] = come[key]
    table.update(before)


class Model:
    """Change by change. What was deleted is remembered to the end of the round."""

    def __init__(self, soft: bool) -> None:
        self.soft = soft
        self.rows: dict[int, Row] = {}
        self._gone: dict[int, int | None] = {}

    def round(self, changes: list[Row]) -> None:
        self._gone.clear()
        for change in changes:
            key, n, current = change["id"], change["n"], self.rows.get(change["id"])
            at = self._gone.get(key) if current is None else current["n"]
            if n is not None and at is not None and n < at:
                continue
            if change["op"] is not Op.DELETE:
                self.rows[key] = {name: change[name] for name in ("id", "n", "a")} | {"gone": False}
            elif self.soft:
                self.rows[key] = (current or {"id": key}) | {"n": at if n is None else n, "gone": True}
            else:
                self.rows.pop(key, None)
                self._gone[key] = n

    def shown(self, rows: dict[int, Row]) -> dict[int, Row]:
        """Of deleted rows, the other values are those of any row that there was."""
        return {
            key: {name: row.get(name) for name in ("id", "n") + (() if row.get("gone") else ("a",))}
            | {"gone": bool(row.get("gone"))}
            for key, row in rows.items()
        }


_CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from([Op.UPDATE, Op.UPDATE, Op.DELETE]),
            "id": st.integers(0, 1),
            "n": st.one_of(st.none(), st.integers(0, 5)),
        }
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_CHANGES, max_size=4), st.booleans())
def test_rounds_as_a_dictionary(rounds: list[list[Row]], soft: bool) -> None:
    """Late changes change nothing, however they are dealt out to rounds."""
    model, table = Model(soft), dict[int, Row]()
    for number, changes in enumerate(rounds):
        for at, change in enumerate(changes):
            change["a"] = None if change["op"] is Op.DELETE else f"{number}.{at}"
        model.round(changes)
        if changes:
            land(fold(*tables(changes), ["id"], "gone" if soft else None, "n"), table)
        assert model.shown(table) == model.shown(model.rows)


def test_the_newest_of_a_round() -> None:
    changes = [{"id": 1, "n": n, "a": text} for n, text in ((2, "late"), (3, "newest"), (1, "oldest"))]
    folded = fold(*tables(changes), ["id"], sequence_by="n")
    assert folded.rows.column("a").to_pylist() == ["newest"]
    assert folded.key_values is not None
    assert folded.key_values.to_pylist() == [3]


_FIVE = {"id": 1, "n": 5, "a": "five", "b": "large"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # What is left out is not what a late change has, but what the table has.
        ([(2, "late", "late"), (6, "six", HOLE)], (6, "six", "large")),
        ([(2, "late", "late"), (None, "any", HOLE)], (None, "any", "large")),
        # What the round has, if that counts.
        ([(6, "six", "other"), (7, "seven", HOLE)], (7, "seven", "other")),
        ([(7, "seven", HOLE), (6, "six", "other")], (7, "seven", "other")),
        ([(None, "any", "other"), (1, "one", HOLE)], (1, "one", "other")),
        ([(4, "late", HOLE)], (5, "five", "large")),
        ([(3, "late", "late"), (4, "late", HOLE)], (5, "five", "large")),
        ([(None, "any", HOLE), (1, "one", HOLE)], (1, "one", "large")),
        ([(2, "late", "late"), (None, "any", HOLE), (1, "one", HOLE)], (1, "one", "large")),
    ],
)
def test_values_that_were_left_out(changes: list[tuple[Any, ...]], expected: tuple[Any, ...]) -> None:
    rows = [{"id": 1} | dict(zip(("n", "a", "b"), change, strict=True)) for change in changes]
    table = {1: dict(_FIVE)}
    land(fold(*tables(rows), ["id"], sequence_by="n"), table)
    assert table == {1: {"id": 1} | dict(zip(("n", "a", "b"), expected, strict=True))}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(Op.DELETE, None), (Op.UPDATE, 3)], (5, True)),
        ([(Op.DELETE, None), (Op.UPDATE, 5)], (5, False)),
        ([(Op.UPDATE, 3), (Op.DELETE, None)], (5, True)),
        ([(Op.DELETE, 4)], (5, False)),
        ([(Op.DELETE, 6), (Op.UPDATE, 5)], (6, True)),
        ([(Op.UPDATE, None), (Op.DELETE, None), (Op.UPDATE, 0)], (0, False)),
    ],
)
def test_marks_of_deleted_rows(changes: list[tuple[Op, int | None]], expected: tuple[int, bool]) -> None:
    """They remember how new the row was, or its delete, for what comes late."""
    rows = [{"op": op, "id": 1, "n": n, "a": None if op is Op.DELETE else "a"} for op, n in changes]
    table: dict[int, Row] = {1: _FIVE | {"gone": False}}
    land(fold(*tables(rows), ["id"], "gone", "n"), table)
    assert (table[1]["n"], table[1]["gone"]) == expected


@pytest.mark.parametrize("between", [0, 1])
def test_a_key_that_was_changed(between: int) -> None:
    """There is no place in a log to know it by, but the two records follow each other."""
    changes: list[Row] = [
        {"op": Op.DELETE, "id": 2, "n": 9, "a": "another", "b": "another"},
        {"op": Op.DELETE, "id": 1, "ts": 3},
        *[{"op": Op.UPDATE, "id": 8, "n": 1, "ts": 2}] * between,
        {"op": Op.CREATE, "id": 2, "n": 4, "a": "moved", "b": HOLE, "ts": 3},
        {"op": Op.UPDATE, "id": 2, "n": 6, "a": "and changed", "b": HOLE, "ts": 4},
    ]
    table = {1: dict(_FIVE)}
    land(fold(*tables(changes), ["id"], sequence_by="n"), table)
    assert 1 not in table
    assert table[2] == {"id": 2, "n": 6, "a": "and changed", "b": "large"}


def topic_of(world: World) -> str:
    return world.kafka.create_topic(f"q{os.getpid()}x{next(_numbers)}", partitions=1)


def send(producer: Producer, topic: str, changes: list[Row]) -> None:
    """Flat rows, as a source sends them that knows nothing of Debezium but its mark of deletes."""
    for change in changes:
        value = {name: change[name] for name in ("id", "n", "a")}
        value["__deleted"] = str(change["op"] is Op.DELETE).lower()
        key = json.dumps({"id": change["id"]}).encode()
        producer.produce(topic, json.dumps(value).encode(), key, partition=0)
    assert producer.flush(120) == 0


def pipeline(world: World, topic: str, table: str, by: str = "n", **settings: Any) -> PipelineConfig:
    format_ = {"debezium": {"envelope": "flat", "sequence_by": by}}
    given = {"schema": None, "format": format_, "name": table.replace("_", "-")}
    return world.pipeline(topic, table, **(given | settings))


def story(rng: random.Random, turn: int) -> list[Row]:
    changes = []
    for number in range(120):
        op = rng.choice([Op.UPDATE, Op.UPDATE, Op.DELETE])
        change: Row = {"op": op, "id": rng.randrange(60), "n": rng.choice([None, *range(turn, turn + 6)])}
        changes.append(change | {"a": None if op is Op.DELETE else f"{turn}.{number}"})
    # Their columns tell what the table has.
    return [{"op": Op.UPDATE, "id": 100, "n": 0, "a": "first"}, *changes]


@pytest.mark.parametrize(("version", "soft"), [(2, False), (3, True)])
def test_from_round_to_round(world: World, producer: Producer, version: int, soft: bool) -> None:
    topic, table = topic_of(world), f"cdc_seq_{version}"
    changes = {"soft_delete": "gone"} if soft else {}
    line = pipeline(world, topic, table, format_version=version, changes=changes)
    rng, model = random.Random(version), Model(soft)
    for turn in range(3):
        changed = story(rng, turn)
        send(producer, topic, changed)
        world.run(line)
        model.round(changed)
        found = {row["id"]: row for row in world.rows(table)}
        assert model.shown(found) == model.shown(model.rows)
    by_spark = world.spark_rows(f"SELECT * FROM {{}}.{table}")
    assert len(by_spark) == len(model.rows)
    assert model.shown({row["id"]: row for row in by_spark}) == model.shown(model.rows)


def test_what_is_counted(world: World, producer: Producer) -> None:
    topic = topic_of(world)
    line = pipeline(world, topic, "cdc_seq_counted")
    send(producer, topic, [{"op": Op.UPDATE, "id": number, "n": 5, "a": "a"} for number in range(4)])
    world.run(line)
    late = [{"op": Op.UPDATE, "id": number, "n": 3 + number, "a": "b"} for number in range(4)]
    send(producer, topic, [*late, {"op": Op.DELETE, "id": 0, "n": 4, "a": None}])
    world.run(line)
    assert [row["a"] for row in world.rows("cdc_seq_counted")] == ["a", "a", "b", "b"]
    done = [event for event in world.seen.events if isinstance(event, RoundCommitted)][-1]
    assert (done.pipeline, done.read, done.written, done.total_written) == (line.name, 5, 2, 6)


@pytest.mark.parametrize(("by", "told"), [("nope", "no such column"), ("a", "is of the type string")])
def test_a_column_that_orders_nothing(world: World, producer: Producer, by: str, told: str) -> None:
    topic = topic_of(world)
    send(producer, topic, [{"op": Op.UPDATE, "id": 1, "n": 5, "a": "a"}])
    with pytest.raises(InvalidConfig, match=f"sequence_by: {by}.*{told}"):
        world.run(pipeline(world, topic, f"cdc_seq_{by}", by))
    assert not world.exists(f"cdc_seq_{by}")
    # Also of a table that is there already.
    world.run(pipeline(world, topic, f"cdc_seq_{by}"))
    with pytest.raises(InvalidConfig, match=f"sequence_by: {by}.*{told}"):
        world.run(pipeline(world, topic, f"cdc_seq_{by}", by))
