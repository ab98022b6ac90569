"""Compiles the native modules, for wheels and editable installs; in place: `python hatch_build.py [module]`.

frazil works without them, slower: where there is no C compiler the wheel is a pure one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src/frazil/stream")
#: Module in the package to its sources in `native/`.
MODULES = {
    "_fetch": ["fetch.c"],
    "_json": ["json.c"],
    "_csv": ["csv.c"],
    "_protobuf": ["protobuf.c"],
    "_avro": ["avro.c"],
}
FLAGS = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"]
HARDENING = ["-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-Wl,-z,relro,-z,now"]
ABI = "-DPy_LIMITED_API=0x030B0000"


class NativeBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = build(Path(self.root))
        if built:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{platform}"
            build_data["artifacts"] += [f"/{path.relative_to(self.root)}" for path in built]


def build(root: Path, only: list[str] | None = None) -> list[Path]:
    """Compile what there is into the package; the paths of the modules, none where that cannot be done."""
    package = root / PACKAGE
    missing = _why_not()
    built: list[Path] = []
    for module in only or MODULES:
        target = package / f"{module}.abi3.so"
        sources = [package / "native" / name for name in MODULES[module]]
        if not all(source.exists() for source in sources):
            continue
        reason = missing or compile_module(target, sources)
        if reason is None:
            built.append(target)
        else:
            target.unlink(missing_ok=True)
            print(f"frazil: without the native {module}, so slower: {reason}", file=sys.stderr)
    return built


def compile_module(target: Path, sources: list[Path], flags: list[str] | None = None) -> str | None:
    """Why it failed, or None. The old module is replaced at once: a process may have it open."""
    extra = [*FLAGS, *HARDENING, *shlex.split(os.environ.get("CFLAGS", ""))] if flags is None else flags
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        output = Path(scratch) / target.name
        command = [*_compiler(), *extra, ABI, f"-I{sysconfig.get_path('include')}"]
        done = subprocess.run(
            [*command, "-o", str(output), *map(str, sources), "-ldl", "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{shlex.join(command[:1])} failed: {done.stderr.strip()}"
        if done.stderr:
            print(done.stderr, file=sys.stderr)
        output.replace(target)
    return None


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def _why_not() -> str | None:
    if sys.platform != "linux":
        return f"they are built on Linux only, not on {sys.platform}"
    if os.environ.get("FRAZIL_NATIVE") == "0":
        return "FRAZIL_NATIVE=0"
    if shutil.which(_compiler()[0]) is None:
        return f"no C compiler ({_compiler()[0]}) on this machine"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h (the development files of Python) on this machine"
    return None


if __name__ == "__main__":
    made = build(Path(__file__).resolve().parent, sys.argv[1:])
    print("\n".join(map(str, made)) or "nothing was built")
    sys.exit(0 if made else 1)
