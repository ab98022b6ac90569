from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from frazil.core.schema import Schema
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.source import RawBatch


def raw_batch(values: pa.BinaryArray) -> RawBatch:
    """As if they had come from a topic."""
    numbers = pa.array(range(len(values)), pa.int64())
    return RawBatch("topic", 0, values, numbers, numbers)


@dataclass(frozen=True)
class JsonTrial:
    """A decoder under test."""

    decoder: JsonDecoder

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return self.decoder.decode(raw_batch(values))

    def rows(self, values: pa.BinaryArray) -> pa.RecordBatch:
        """All of them, or the first bad one is raised."""
        found = self.decode(values)
        if found.bad:
            raise found.bad[0]
        return found.rows

    def split(self, values: pa.BinaryArray) -> tuple[pa.RecordBatch, tuple[Undecodable, ...]]:
        found = self.decode(values)
        return found.rows, found.bad


Make = Callable[..., JsonTrial]


@pytest.fixture
def native() -> Any:
    """The native module. Where it can be built it has to be there."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, so no native decoder")
    from frazil.stream import _json

    return _json


@pytest.fixture(params=["native", "reference"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds decoders: each test runs over both kinds."""
    if request.param == "native":
        request.getfixturevalue("native")
    monkeypatch.setenv("FRAZIL_NATIVE", "1" if request.param == "native" else "0")

    def build(
        schema: Schema,
        format: JsonFormat,  # noqa: A002
        contract: Contract = Contract(),  # noqa: B008
        reserved: tuple[str, ...] = (),
    ) -> JsonTrial:
        decoder = JsonDecoder(schema, format, contract, reserved)
        assert type(decoder._reader).__name__.lower().startswith(request.param)
        return JsonTrial(decoder)

    return build
