"""Iceberg's own actions, each bounded. None of their commits carries a stamp.

A copy of a stamp could come to lie above a newer one: Iceberg tries a refused commit again, on whatever main
is then, with what it was told at first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from frazil.core.errors import Conflict
from frazil.core.failpoints import reach
from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEGABYTE = 1024 * 1024
#: A group is one Spark job and is committed with few others, so that a failure or a kill loses little.
_GROUP_BYTES = 1024 * _MEGABYTE
_COMMITS = 5
_MOST_AT_ONCE = 16
#: Groups with fewer small files are left to grow.
MIN_FILES = 5
#: Never: to split what a pipeline made large on purpose is no maintenance.
_TOO_LARGE = 2**62


@dataclass(frozen=True)
class Merged:
    """What became of small files."""

    files: int = 0
    into: int = 0
    bytes: int = 0
    #: Files of groups that could not be rewritten or committed; their turn comes again.
    failed: int = 0


def document(table: LakeTable) -> dict[str, Any]:
    """The metadata document as the table was last loaded."""
    with java_errors(f"reading the table {table}"):
        text = table.lake.iceberg.TableMetadataParser.toJson(table.metadata)
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def merge_files(spark: SparkSession, table: LakeTable, file_size: int, most_files: int) -> Merged:
    """Write up to `most_files` small files anew as few large ones, the most crowded partitions first."""
    cores = spark.sparkContext.defaultParallelism
    options = {
        "target-file-size-bytes": file_size,
        "max-file-size-bytes": _TOO_LARGE,
        "min-input-files": MIN_FILES,
        "max-files-to-rewrite": most_files,
        "max-file-group-size-bytes": max(_GROUP_BYTES, 2 * file_size),
        "max-concurrent-file-group-rewrites": min(max(cores // 4, 2), _MOST_AT_ONCE),
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": _COMMITS,
        "rewrite-job-order": "files-desc",
    }
    reach("merge.before")
    with java_errors(f"merging small files of the table {table}"):
        action = _actions(spark, table).rewriteDataFiles(table.java)
        for key, value in options.items():
            action = action.option(key, str(value))
        result = action.execute()
        reach("merge.after")
        return Merged(
            int(result.rewrittenDataFilesCount()),
            int(result.addedDataFilesCount()),
            int(result.rewrittenBytesCount()),
            int(result.failedDataFilesCount()),
        )


def merge_manifests(spark: SparkSession, table: LakeTable) -> int:
    """Write the manifests anew as few; returns how many there were."""
    with java_errors(f"merging manifests of the table {table}"):
        result = _actions(spark, table).rewriteManifests(table.java).execute()
        return sum(1 for _ in result.rewrittenManifests())


def expire(table: LakeTable, snapshots: Collection[int]) -> None:
    """Expire these snapshots and no other, then delete the files that no other snapshot has.

    Conflict: the retention of a branch would take more.
    """
    with java_errors(f"expiring snapshots of the table {table}"):
        # By age, which is Iceberg's default, none goes.
        change = table.java.expireSnapshots().expireOlderThan(0)
        for snapshot_id in snapshots:
            change.expireSnapshotId(snapshot_id)
        going = {int(found.snapshotId()) for found in change.apply()}
        if not going <= set(snapshots):
            raise Conflict(
                f"no snapshot of the table {table} is expired: a branch has a retention of its own "
                "(max-snapshot-age-ms), by which Iceberg would also expire what pipelines need to find their "
                "stamps. Take it off; `keep_snapshots` does its work"
            )
        reach("expire.before")
        change.commit()
        reach("expire.after")


def set_properties(table: LakeTable, properties: Mapping[str, str]) -> None:
    """Set table properties, in a commit of their own."""
    with java_errors(f"setting properties of the table {table}"):
        change = table.java.updateProperties()
        for key, value in properties.items():
            change.set(key, value)
        change.commit()


def _actions(spark: SparkSession, table: LakeTable) -> Any:
    session: Any = spark._jsparkSession  # noqa: SLF001
    # Iceberg's own threads take over the session of this one, which has none as long as it made no frame.
    type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(session)  # noqa: SLF001
    return table.lake.iceberg.spark.actions.SparkActions.get(session)
