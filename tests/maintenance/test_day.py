"""A day of commits in minutes: what grows, and where it stops."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.lake.support import Reader, commit, local
from tests.maintenance.conftest import Claim

from frazil.client import Client
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter
from frazil.maintenance import Caretaker, Done, Health, Maintenance, table_health

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRESHNESS = 30.0
#: The other pipeline of the table writes once in so many commits.
RARELY = 30


@dataclass
class Day:
    """Commits that are 30 s apart by the caretaker's clock, and a few milliseconds by everybody else's."""

    lake: Lake
    client: Client
    writer: PipelineWriter
    keep: float
    times: list[float] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    seen: list[Health] = field(default_factory=list)

    def clock(self) -> float:
        """Such that `keep` seconds ago is when the commit of that moment was made."""
        ago = int(self.keep / FRESHNESS)
        return self.keep + (self.times[-ago] if len(self.times) > ago else 0.0)

    def run(self, spark: SparkSession, commits: int, rare: PipelineWriter, config: Maintenance) -> None:
        caretaker = Caretaker(spark, self.lake, config, clock=self.clock)
        table = self.writer.table
        for number in range(commits):
            commit(self.writer, [number])
            if number % RARELY == 0:
                commit(rare, [-number - 1])
            self.times.append(table.metadata.currentSnapshot().timestampMillis() / 1000)
            found = caretaker.committed(table)
            if found is not None:
                self.done.append(found)
            if number % 10 == 9:
                self.seen.append(table_health(self.client.tables.load(table.namespace, table.name).metadata))

    def show(self) -> str:
        table = self.writer.table
        sizes = []
        for entry in os.scandir(local(f"{table.location}/metadata")):
            # The catalog deletes old documents meanwhile.
            with suppress(FileNotFoundError):
                sizes.append(entry.stat().st_size)
        rows = [f"{'commits':>8} {'files':>6} {'snapshots':>9} {'metadata':>9} {'manifests':>9}"]
        every = max(len(self.seen) // 12, 1)
        rows += [
            f"{(number + 1) * 10:>8} {found.files:>6} {found.snapshots:>9} "
            f"{found.metadata_bytes / 1000:>6.0f} kB {found.manifests:>9}"
            for number, found in enumerate(self.seen)
            if (number + 1) % every == 0
        ]
        rows += [f"metadata folder: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"]
        return "\n".join([*rows, *map(str, self.done)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commits", "config"),
    [
        (300, Maintenance(merge_every=50, keep_snapshots=100 * FRESHNESS)),
        # Until snapshots expired twice.
        pytest.param(3500, Maintenance(), marks=pytest.mark.exhaustive),
    ],
    ids=["hours", "day"],
)
def test_sizes_are_bounded(
    spark: SparkSession,
    lake: Lake,
    client: Client,
    table: LakeTable,
    reader: Reader,
    claim: Claim,
    commits: int,
    config: Maintenance,
) -> None:
    assert config.keep_snapshots is not None
    assert config.merge_every is not None
    keep_commits = int(config.keep_snapshots / FRESHNESS)
    day = Day(lake, client, claim("orders"), config.keep_snapshots)
    day.run(spark, commits, claim("rare"), config)
    print("\n" + day.show())
    assert not [found.failures for found in day.done if found.failures]
    merges = sum(found.merged is not None for found in day.done)
    assert sum(found.expired for found in day.done) > 0
    # What is kept, what waits for company, and the commits until somebody looks; those of others besides.
    bound = (keep_commits + max(50, keep_commits // 10) + 20) * (1 + 1 / RARELY) + merges + 10
    later = day.seen[len(day.seen) // 2 :]
    assert max(found.snapshots for found in later) <= bound
    assert max(found.metadata_bytes for found in later) < bound * 1400 + 30_000
    assert max(found.files or 0 for found in day.seen) <= config.merge_every + 30
    assert max(found.manifests or 0 for found in day.seen) <= 250
    # The catalog deletes old ones after it has answered.
    deadline = time.monotonic() + 120
    while len(list(local(f"{table.location}/metadata").glob("*.metadata.json"))) > 40:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    expected = [*range(commits), *(-number - 1 for number in range(0, commits, RARELY))]
    assert reader.ids() == sorted(expected)
    for pipeline, written in (("orders", commits), ("rare", -(-commits // RARELY))):
        found = reader.check(pipeline, expected)
        assert found.written == written
        again = claim(pipeline)
        assert (again.stamp.epoch, again.stamp.positions) == (2, found.positions)
