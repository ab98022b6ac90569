"""What Spark's Python workers do before and after every task, however small: most of it is in vain."""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

#: Calls after which everything that stays is loaded; a task has up to two.
_LOADING = 4
_calls = 0


def settle() -> None:
    """At the start of a task.

    Spark lets Python forget what it knows of archives: it then reads the table of contents of pyspark.zip and
    of Spark's own jar again, once for every package in them, 0.1 CPU-seconds a task. And it collects garbage,
    for which Python looks at every object of every module.
    """
    global _calls  # noqa: PLW0603 - a process has one set of modules
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and not _may_change(finder):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]
    if _calls < _LOADING:
        _calls += 1
        gc.freeze()


def _may_change(finder: zipimporter) -> bool:
    """Archives of a program come and go; those of Spark's installation stay as they are."""
    return "pyspark" not in finder.archive and not finder.archive.endswith(".jar")


def _nothing() -> None:
    pass
