"""The native Protobuf and CSV decoders when each allocation fails in turn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import raw_batch
from tests.stream.decode.flaky import every_step_may_fail, flaky_module
from tests.stream.decode.protobuf_trial import ENUM, columns, message, settings_of

from frazil.stream.config.model import Contract, CsvFormat
from frazil.stream.decode.csv import CsvDecoder
from frazil.stream.decode.protobuf import ProtobufDecoder

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so no native decoder")


def test_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.stream.decode import protobuf_native

    flaky = flaky_module("_protobuf", "protobuf.c", tmp_path)
    monkeypatch.setattr(protobuf_native, "_protobuf", flaky.module)
    form = settings_of(
        "string a = 1; repeated Inner b = 2; map<string, bytes> c = 3; Kind d = 4; Inner e = 5; "
        "repeated int64 f = 6;",
        "message Inner { string x = 1; optional int64 y = 2; } " + ENUM,
    )
    inner = "struct<x: string, y: int>"
    schema = columns(
        a="string",
        b=f"list<{inner}>",
        c="map<string, binary>",
        d="string",
        e=inner,
        f="list<int>",
        g="string",
    )
    record = message(
        form, a="text", b=[{"x": "p"}, {"y": 2**40}], c={"k": b"1", "l": b"2"}, d=9, e={"x": "q"}
    )
    values = pa.array([record, record + message(form, e={"y": 1}, f=[2**40], c={"k": b""}), b"\xff", b""])

    def read() -> None:
        found = ProtobufDecoder(schema, form, Contract(types="discard_value")).decode(raw_batch(values))
        assert (len(found.rows), len(found.bad)) == (3, 1)

    assert every_step_may_fail(flaky, read) > 50


def test_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.stream.decode import csv_native

    flaky = flaky_module("_csv", "csv.c", tmp_path)
    monkeypatch.setattr(csv_native, "_csv", flaky.module)
    schema = columns(a="string", b="double", c="binary", d="boolean")
    values = pa.array([b'"x""y",0.12345678901234567890,AAE=,true', b",,,", b"x", b",x,,"])

    def read() -> None:
        found = CsvDecoder(schema, CsvFormat(), Contract(types="discard_value")).decode(raw_batch(values))
        assert (len(found.rows), len(found.bad)) == (3, 1)

    assert every_step_may_fail(flaky, read) > 10
