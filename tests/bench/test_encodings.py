"""What the benchmark produces is what the libraries of the formats read and write."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import numpy as np
import pytest
from bench.ingest.encodings import AVRO_SCHEMA, PROTOBUF_SCHEMA, format_of, renderer
from bench.ingest.messages import SCHEMA, Values, wrong
from bench.ingest.stages import batches_of
from bench.numbers import Ids
from google.protobuf.message_factory import GetMessageClass

from frazil.core.schema import Field, Schema
from frazil.stream.config.model import Contract
from frazil.stream.decode.formats import decoder_of
from frazil.stream.decode.protobuf_descriptors import message_of_text

#: The first, where id is zero, and those where varints grow.
_IDS = np.array([0, 1, 63, 64, 127, 128, 8191, 8192, 16_383, 16_384, 2_097_151, 2_097_152, 7_999_999])
_JSON = [json.loads(text) for text in renderer("json")(_IDS)]


def test_avro() -> None:
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA))
    for expected, message in zip(_JSON, renderer("avro", 77)(_IDS), strict=True):
        assert struct.unpack(">BI", message[:5]) == (0, 77)
        row = fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None)
        again = io.BytesIO()
        fastavro.schemaless_writer(again, schema, row)
        assert again.getvalue() == message[5:]
        assert isinstance(row, dict)
        row["ts"] = round(row["ts"].timestamp() * 1000)
        assert row == expected


@pytest.mark.parametrize("schema_id", [1, 300])
def test_protobuf(schema_id: int) -> None:
    kind = GetMessageClass(message_of_text(PROTOBUF_SCHEMA, {}, (0,)))
    ids = np.concatenate([_IDS, _without_cents()])
    for text, message in zip(renderer("json")(ids), renderer("protobuf", schema_id)(ids), strict=True):
        assert struct.unpack(">BIB", message[:6]) == (0, schema_id, 0)
        row = kind.FromString(message[6:])
        assert row.SerializeToString(deterministic=True) == message[6:]
        found = [getattr(row, name) for name in SCHEMA]
        found[2] = found[2].ToMilliseconds()
        assert found == list(json.loads(text).values())


def _without_cents() -> Ids:
    """Zeros, which Protobuf leaves out."""
    ids = np.arange(1_000_000)
    found: Ids = ids[Values.of(ids).cents == 0][:2]
    assert len(found)
    return found


def test_csv() -> None:
    schema = Schema(tuple(Field(name, kind) for name, kind in SCHEMA.items())).with_fresh_ids()
    (batch,) = batches_of(renderer("csv"), 1000)
    found = decoder_of(format_of("csv", None), schema, Contract()).decode(batch)
    assert not found.bad
    assert found.rows["id"].to_pylist() == list(range(1000))
    assert not wrong(found.rows).any()
