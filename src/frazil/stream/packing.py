"""What the executors of a cluster need of Python, as archives: frazil and the packages it runs on.

A machine of the cluster has Spark and a bare Python of the driver's minor version. Archives are named by
their content.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

import frazil
from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError

#: Goes up when the rules below change: the same packages then make another archive.
_RULES = 1
_EXTRA = "stream"
#: The cluster has its own.
_SPARK = frozenset({"pyspark", "py4j"})
#: Only the catalog's server runs on these.
_SERVER = frozenset({"asyncpg", "httptools", "openapi-ui-bundles", "pyjwt", "uvicorn", "uvloop"})
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA_MARKER = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
#: What packages are built and tested with.
_FOLDERS_LEFT_OUT = frozenset({"__pycache__", "tests"})
_SUFFIXES_LEFT_OUT = (".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".c", ".a")


@dataclass(frozen=True)
class Packed:
    """The archives, and the versions of the packages in the first."""

    #: Large, and the same until something is installed.
    packages: Path
    #: frazil itself, and the modules beside the file of pipelines.
    code: Path
    versions: Mapping[str, str]

    @property
    def size(self) -> int:
        return self.packages.stat().st_size + self.code.stat().st_size


def pack(modules: Path | None = None) -> Packed:
    """The archives of this environment; what was packed before is used again.

    `modules` is a folder whose modules go along. Executors must have this machine's kind of processor and
    system, and its minor version of Python.
    """
    found = needed()
    digest = hashlib.sha256(f"{_RULES} {platform.system()} {platform.machine()}\n".encode())
    for distribution in found.values():
        # The RECORD has the hash of every file.
        digest.update((distribution.read_text("RECORD") or "").encode())
    packages = _packed(
        f"packages-{python_tag()}-{digest.hexdigest()[:16]}",
        lambda: {name: file for one in found.values() for name, file in _files(one)},
        f"packing {len(found)} packages for the executors (once)",
    )
    sources = dict(_package_files()) | dict(_modules(modules) if modules is not None else ())
    digest = hashlib.sha256(str(_RULES).encode())
    for name, file in sources.items():
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    code = _packed(f"code-{digest.hexdigest()[:16]}", lambda: sources)
    return Packed(packages, code, {name: one.version for name, one in found.items()})


def python_tag() -> str:
    """`python3.11`: the program that executors need on their path."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def needed() -> dict[str, metadata.Distribution]:
    """The distributions below frazil's extra for pipelines, by normalized name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [("frazil", frozenset({_EXTRA}))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        distribution = metadata.distribution(name)
        found[name] = distribution
        waiting += requirements(distribution, extras)
    return {name: found[name] for name in sorted(found) if name != "frazil"}


def requirements(
    distribution: metadata.Distribution, extras: frozenset[str]
) -> list[tuple[str, frozenset[str]]]:
    """What it needs here: markers other than extras are answered by whether it is installed."""
    found = []
    for text in distribution.requires or ():
        requirement, _, marker = text.partition(";")
        wanted = _EXTRA_MARKER.search(marker)
        match = _REQUIREMENT.match(requirement)
        if match is None or (wanted is not None and wanted[1] not in extras):
            continue
        name = _normalized(match[1])
        if name in _SPARK or name in _SERVER:
            continue
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if marker and (wanted is None or wanted[0] != marker.strip()):
                continue
            raise ServiceError(
                f"{distribution.name} needs {name}, which is not installed, so it cannot be packed for the "
                "executors: pip install 'frazil[stream]'"
            ) from None
        asked = frozenset(part.strip() for part in (match[2] or "").split(",") if part.strip())
        found.append((name, asked))
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The files of an installed package by their places below the folder of packages."""
    listed = distribution.files
    if listed is None:
        raise ServiceError(
            f"{distribution.name} was installed without a list of its files, so it cannot be packed for the "
            "executors: install it with pip, in a virtual environment"
        )
    for entry in listed:
        place = PurePosixPath(entry)
        # Those elsewhere are commands and manuals.
        if ".." not in place.parts and not place.is_absolute() and _wanted(place):
            yield str(place), Path(str(distribution.locate_file(entry)))


def _package_files() -> Iterator[tuple[str, Path]]:
    """frazil's own, which may run from its sources."""
    root = Path(frazil.__file__).parent
    for file in sorted(root.rglob("*")):
        place = PurePosixPath("frazil", file.relative_to(root).as_posix())
        if file.is_file() and _wanted(place):
            yield str(place), file


def _modules(directory: Path) -> Iterator[tuple[str, Path]]:
    packages = [folder for folder in directory.iterdir() if (folder / "__init__.py").is_file()]
    for file in [*directory.glob("*.py"), *(file for folder in packages for file in folder.rglob("*.py"))]:
        yield file.relative_to(directory).as_posix(), file


def _wanted(place: PurePosixPath) -> bool:
    return not _FOLDERS_LEFT_OUT.intersection(place.parts) and place.suffix not in _SUFFIXES_LEFT_OUT


def _packed(name: str, files: Callable[[], Mapping[str, Path]], message: str | None = None) -> Path:
    path = cache_dir("submit") / f"{name}.tar.gz"
    with exclusive(cache_dir("submit") / ".lock"):
        if not path.is_file():
            if message is not None:
                progress(message)
            _write_tar(path, files())
    return path


def _write_tar(path: Path, files: Mapping[str, Path]) -> None:
    """The same bytes from the same files."""
    with (
        _replacing(path) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", dereference=True) as archive,
    ):
        for name, file in sorted(files.items()):
            try:
                archive.add(file, name, recursive=False, filter=_plain)
            except FileNotFoundError:
                raise ServiceError(
                    f"{file} belongs to an installed package and is gone; install the package again"
                ) from None


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file that is whole when it has its name."""
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
