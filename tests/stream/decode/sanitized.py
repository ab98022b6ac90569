"""A fuzz of a native module with every access checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PROGRAM = """
import importlib, importlib.util, sys
name = "frazil.stream." + sys.argv[2]
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
import frazil.stream
setattr(frazil.stream, sys.argv[2], module)
spec.loader.exec_module(module)
importlib.import_module(sys.argv[3]).fuzz(12, float(sys.argv[4]))
"""


def fuzz_sanitized(name: str, source: str, fuzzer: str, scratch: Path, seconds: int = 60) -> None:
    """`fuzzer` is a module with a function `fuzz(seed, seconds)`."""
    compiler = shutil.which("gcc")
    runtimes = [
        subprocess.run(
            [compiler, f"-print-file-name={one}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for one in ("libasan.so", "libubsan.so")
        if compiler
    ]
    if not runtimes or not all(Path(one).is_absolute() for one in runtimes):
        pytest.skip("no gcc with sanitizers")
    module = scratch / f"{name}.abi3.so"
    flags = ["-std=c11", "-O1", "-g", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030B0000"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    code = _ROOT / "src/frazil/stream/native" / source
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([str(compiler), *flags, *checks, include, str(code), "-o", str(module), "-lm"], check=True)
    environment = os.environ | {
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONPATH": str(_ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(module), name, fuzzer, str(seconds)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
