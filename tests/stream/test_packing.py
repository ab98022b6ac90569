"""The archives for executors: a bare Python runs on them, and they are made once."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from frazil.core.errors import ServiceError
from frazil.stream.packing import Packed, needed, pack, python_tag, requirements

#: Everything that a task can import, with Spark's own library and nothing else installed.
IMPORT_ALL = """
import pkgutil, sys, importlib
for name in ("core", "client", "lake", "stream"):
    package = importlib.import_module(f"frazil.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"frazil.{name}."):
        importlib.import_module(module.name)
import pandas
print(*{module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)}, sep="\\n")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty one: what an older version packed must not be found."""
    found = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAZIL_CACHE_DIR", str(found))
        yield found


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("beside")
    (found / "transforms.py").write_text("WORD = 'ice'\n")
    (found / "shapes").mkdir()
    (found / "shapes" / "__init__.py").touch()
    (found / "shapes" / "round.py").touch()
    (found / "notes.txt").write_text("private")
    (found / "data").mkdir()
    (found / "data" / "no_module.py").touch()
    return found


@pytest.fixture(scope="module")
def packed(cache: Path, modules: Path) -> Packed:
    return pack(modules)


@dataclass(frozen=True)
class Unpacked:
    """As in the working folder of an executor."""

    folder: Path
    entries: dict[str, list[tarfile.TarInfo]]


@pytest.fixture(scope="module")
def unpacked(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    found = Unpacked(tmp_path_factory.mktemp("executor"), {})
    for archive, folder in ((packed.packages, "packages"), (packed.code, "code")):
        with tarfile.open(archive) as opened:
            opened.extractall(found.folder / folder, filter="data")
            found.entries[folder] = opened.getmembers()
    return found


@pytest.mark.slow
def test_a_bare_python_runs_on_them(unpacked: Unpacked) -> None:
    spark = Path(str(metadata.distribution("pyspark").locate_file("pyspark/python/lib")))
    library = [str(path) for path in spark.glob("*.zip")]
    folder = unpacked.folder
    answer = subprocess.run(
        [Path(sys.base_prefix, "bin", python_tag()), "-s", "-S", "-c", IMPORT_ALL],
        cwd=folder,
        env={"PYTHONPATH": ":".join(["code", "packages", *library]), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    found = set(answer.stdout.splitlines())
    assert str(folder / "code" / "frazil" / "stream" / "tasks.py") in found
    foreign = [path for path in found if not path.startswith((str(folder), sys.base_prefix, *library))]
    assert not foreign


@pytest.mark.slow
def test_only_what_tasks_need_and_the_modules_beside(unpacked: Unpacked) -> None:
    code = {entry.name for entry in unpacked.entries["code"]}
    assert {"transforms.py", "shapes/__init__.py", "shapes/round.py", "frazil/__init__.py"} <= code
    assert not {"notes.txt", "data/no_module.py"} & code
    packages = unpacked.entries["packages"]
    folders = {entry.name.partition("/")[0] for entry in packages}
    assert {"pyarrow", "confluent_kafka", "confluent_kafka.libs"} <= folders
    assert not {"pyspark", "py4j", "uvicorn", "pytest", "frazil", ".."} & folders
    assert all(entry.isfile() and entry.mtime == entry.uid == 0 for entry in packages)


@pytest.mark.slow
def test_they_are_made_once_for_each_content(packed: Packed, modules: Path, tmp_path: Path) -> None:
    before = packed.packages.stat()
    (tmp_path / "transforms.py").write_text("WORD = 'snow'\n")
    other = pack(tmp_path)
    assert other.packages == packed.packages
    assert packed.packages.stat() == before
    assert other.code != packed.code
    assert pack(modules) == packed
    assert oct(before.st_mode)[-3:] == "600"


def test_the_packages_of_the_extra() -> None:
    found = needed()
    assert {"confluent-kafka", "pyarrow", "numpy", "msgspec", "pyiceberg-core"} <= set(found)
    # Of an extra of theirs, of a server, of a developer.
    assert not {"pyspark", "py4j", "uvicorn", "botocore", "pytest", "pyiceberg"} & set(found)


def test_what_is_required_but_not_installed(tmp_path: Path) -> None:
    folder = tmp_path / "thing-1.dist-info"
    folder.mkdir()

    def required(line: str) -> list[tuple[str, frozenset[str]]]:
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: thing\nVersion: 1\n{line}\n")
        return requirements(metadata.PathDistribution(folder), frozenset({"fast"}))

    assert required("Requires-Dist: Py_Arrow.Nothing; sys_platform == 'win32'") == []
    assert required("Requires-Dist: nothing-here; extra == 'slow'") == []
    assert required("Requires-Dist: nothing-here; python_version < '3' and extra == 'fast'") == []
    assert required("Requires-Dist: fastavro[snappy,zstandard]>=1; extra == 'fast'") == [
        ("fastavro", frozenset({"snappy", "zstandard"}))
    ]
    for line in ("Requires-Dist: nothing-here>=2", "Requires-Dist: nothing-here; extra == 'fast'"):
        with pytest.raises(ServiceError, match=r"thing needs nothing-here, which is not installed"):
            required(line)
