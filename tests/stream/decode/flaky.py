"""A native module with an allocator that fails when told, and counts what is not given back."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stream.decode.test_out_of_memory import _ALLOCATOR

_NATIVE = Path(__file__).parents[3] / "src/frazil/stream/native"


@dataclass(frozen=True)
class Flaky:
    module: Any
    library: ctypes.CDLL


def flaky_module(name: str, source: str, scratch: Path) -> Flaky:
    header, built = scratch / "flaky.h", scratch / f"{name}.abi3.so"
    header.write_text(_ALLOCATOR)
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030B0000"]
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*command, include, "-include", header, _NATIVE / source, "-o", built, "-lm"], check=True)
    spec = importlib.util.spec_from_file_location(name, built)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Flaky(module, ctypes.CDLL(str(built)))


def every_step_may_fail(flaky: Flaky, read: Callable[[], None]) -> int:
    """`read` with the first allocation failing, then the second, … until none does; how many failed."""
    left, live = (ctypes.c_long.in_dll(flaky.library, name) for name in ("steps_left", "live"))
    failed = 0
    for step in range(10_000):
        left.value = step
        try:
            read()
        except MemoryError:
            failed += 1
        assert live.value == 0, f"left behind when step {step} failed"
        if left.value >= 0:
            break
    assert failed == step
    return failed
