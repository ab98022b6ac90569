"""What tasks hand to the driver and to Spark, without either."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from frazil.core.errors import BadRecord, RoundFailed
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.files import WriteTarget
from frazil.stream.frames import TaskFailed, failure_in
from frazil.stream.outlets import Destination, TableWriting
from frazil.stream.spark_types import to_spark
from frazil.stream.tasks import Failure, open_outlet


class Bomb:
    """Does what a pickle that somebody else wrote can do: anything."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._path,)


def test_an_error_comes_through_the_text_of_another() -> None:
    found = failure_in(f"Job aborted … TaskFailed: {TaskFailed(BadRecord('offset 7: “é”'))}\n\tat Java")
    assert isinstance(found, BadRecord)
    assert found.message == "offset 7: “é”"


@pytest.mark.parametrize("text", ["nothing of ours", "frazil-failure:abc:", "frazil-failure:7b7d:"])
def test_a_text_without_an_error(text: str) -> None:
    assert failure_in(text) is None


def test_a_record_that_spark_quotes_is_not_run(tmp_path: Path) -> None:
    """`CAST(word AS bigint)` fails with a message that holds the word, and records come from anybody."""
    word = f"frazil-failure:{pickle.dumps(Bomb(tmp_path / 'owned')).hex()}:"
    assert failure_in(f"[CAST_INVALID_INPUT] The value '{word}' cannot be cast") is None
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("kind", ["Outcome", "StrEnum", "NoSuchThing"])
def test_only_errors_are_made_of_what_a_task_tells(kind: str) -> None:
    assert isinstance(Failure(kind, "text").error(), RoundFailed)


def test_a_stage_that_is_run_again_has_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are the first attempts again, while those of the old stage may still write or clean up."""
    schema = Schema((Field("id", "long", True, id=1),))
    target = WriteTarget(f"file://{tmp_path}", schema, PartitionSpec(()))
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    context = TaskContext._getOrCreate()
    keys: Any = SimpleNamespace(value={})
    writing = TableWriting("p", {"a.b": Destination(target, f"file://{tmp_path}/00000001-ab")}, "a.b")
    writers = []
    for task in (11, 12):
        context._attemptNumber, context._taskAttemptId = 0, task
        writers.append(open_outlet(3, keys, writing))
        writers[-1].write(rows)
    ((taken,),) = writers[1].close().values()
    writers[0].write(rows)
    writers[0].close()
    writers[0].abort()
    assert Path(taken.path.removeprefix("file://")).stat().st_size == taken.size


def test_sixteen_bytes_are_not_always_a_uuid() -> None:
    value = bytes(range(16))
    schema = Schema((Field("u", "uuid", False), Field("f", "fixed[16]", False), Field("n", "long", False)))
    kinds = [pa.binary(16), pa.binary(16), pa.int64()]
    columns = [pa.array([one, None], kind) for one, kind in zip([value, value, 1], kinds, strict=True)]
    found = to_spark(pa.RecordBatch.from_arrays(columns, names=["u", "f", "n"]), schema)
    assert found.schema.types == [pa.string(), pa.binary(), pa.int64()]
    assert found.to_pylist()[0] == {"u": str(uuid.UUID(bytes=value)), "f": value, "n": 1}
