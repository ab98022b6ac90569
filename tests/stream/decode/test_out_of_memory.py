"""The native decoder with an allocator that fails at each step in turn, and counts what is not given back."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.decode import generate

from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode import json_native as native_reader

_SOURCE = Path(__file__).parents[3] / "src/frazil/stream/native/json.c"
_ALLOCATOR = """
#include <stdlib.h>
__attribute__((visibility("default"))) long steps_left = -1;
__attribute__((visibility("default"))) long live = 0;
static int fails(void) { return steps_left >= 0 && steps_left-- == 0; }
static void *counted(void *p) { live += p != NULL; return p; }
static void *flaky_malloc(size_t n) { return fails() ? NULL : counted(malloc(n)); }
static void *flaky_calloc(size_t n, size_t m) { return fails() ? NULL : counted(calloc(n, m)); }
static void *flaky_realloc(void *p, size_t n) {
    return fails() ? NULL : p ? realloc(p, n) : counted(malloc(n));
}
static void flaky_free(void *p) { live -= p != NULL; free(p); }
#define malloc(n) flaky_malloc(n)
#define calloc(n, m) flaky_calloc(n, m)
#define realloc(p, n) flaky_realloc(p, n)
#define free(p) flaky_free(p)
"""


@pytest.fixture
def flaky(native: Any, tmp_path: Path) -> tuple[Any, ctypes.CDLL]:
    header, module = tmp_path / "flaky.h", tmp_path / "_json.abi3.so"
    header.write_text(_ALLOCATOR)
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030B0000"]
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*command, include, "-include", header, _SOURCE, "-o", module, "-lm"], check=True)
    spec = importlib.util.spec_from_file_location("_json", module)
    assert spec
    assert spec.loader
    built = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(built)
    return built, ctypes.CDLL(str(module))


@pytest.mark.parametrize("contract", [Contract(types="discard_value"), Contract(columns="evolve")])
def test_every_step_may_fail(
    flaky: tuple[Any, ctypes.CDLL], monkeypatch: pytest.MonkeyPatch, contract: Contract
) -> None:
    module, library = flaky
    steps_left, live = ctypes.c_long.in_dll(library, "steps_left"), ctypes.c_long.in_dll(library, "live")
    monkeypatch.setattr(native_reader, "_json", module)
    kinds = [
        "string",
        "list<map<string, string>>",
        "struct<a: boolean, b: binary>",
        "double",
        "decimal(9, 2)",
    ]
    columns = Schema(tuple(Field(f"c{n}", parse_type(kind)) for n, kind in enumerate(kinds)))
    rng = Random(4)
    records = [generate.record(rng, columns, "iso").replace(b"other", b"C0") for _ in range(12)]
    records += [
        b'{"c1":[{%s}],"c3":0.12345678901234567890}' % b",".join(b'"%d":"x"' % n for n in range(99)),
        b'{"c1":[{"a":1}],"c2":{"a":1},"c0":{"b":[1]}}',
        b'{"C0":1}',
        b"x",
    ]
    values = pa.array(records, pa.binary())

    def read() -> int:
        found = native_reader.NativeReader(columns, JsonFormat(), contract).read(values)
        return len(found.rows) + len(found.bad) if not found.changes else len(records)

    failed = 0
    for step in range(10_000):
        steps_left.value = step
        try:
            done = read()
        except MemoryError:
            failed += 1
        else:
            assert done == len(records)
        assert live.value == 0, f"left behind when step {step} failed"
        if steps_left.value >= 0:
            break
    assert failed == step
    assert failed > 50
