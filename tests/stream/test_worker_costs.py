"""What a task saves of Spark's work around it."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frazil.stream import worker_costs


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Finders of Spark's archive, and of one that a program brought along."""
    paths = {name: str(tmp_path / f"{name}.zip") for name in ("pyspark", "program")}
    for name, path in paths.items():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"from_{name}.py", "")
        monkeypatch.syspath_prepend(path)
        importlib.import_module(f"from_{name}")
    yield {name: sys.path_importer_cache[path] for name, path in paths.items()}
    for name, path in paths.items():
        del sys.modules[f"from_{name}"], sys.path_importer_cache[path]


def test_archives_of_spark_are_not_read_again(archives: dict[str, Any]) -> None:
    known = {name: finder._files for name, finder in archives.items()}
    try:
        worker_costs.settle()
        importlib.invalidate_caches()
    finally:
        gc.unfreeze()
    assert archives["pyspark"]._files is known["pyspark"]
    assert archives["program"]._files is not known["program"]


def test_modules_are_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_costs, "_calls", 0)
    try:
        worker_costs.settle()
        assert gc.get_freeze_count()
        gc.unfreeze()
        for _ in range(10):
            worker_costs.settle()
        gc.unfreeze()
        worker_costs.settle()
        assert not gc.get_freeze_count(), "what later tasks leave can be collected"
    finally:
        gc.unfreeze()
