"""A pipeline that writes two tables at once."""

from __future__ import annotations

from typing import Any

from tests.lake.support import Reader, at, first, write_file

from frazil.client import Client
from frazil.core.stamp import Stamp
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter, RoundTicket

P = "orders"


class Pair:
    """A home table and a companion, with the writer of both and readers that know no Spark."""

    def __init__(self, client: Client, home: LakeTable, other: LakeTable) -> None:
        self.home = home
        self.other = other
        self.readers = (Reader(client, home), Reader(client, other))
        self.writer = self.claim()

    def claim(self, lake: Lake | None = None, patience: Patience | None = None) -> PipelineWriter:
        """A writer with table objects of its own."""
        lake = lake or self.home.lake
        home, other = (lake.load(each.namespace, each.name) for each in (self.home, self.other))
        self.writer = PipelineWriter.claim(lake, home, P, first, "", patience)
        self.writer.join(other)
        return self.writer

    def write(self, ticket: RoundTicket, home: list[int], other: list[int], number: int = 0) -> Any:
        given = zip(self.writer.tables.items(), (home, other), strict=True)
        return {
            name: [write_file(table, ticket.prefixes[name], ids, number)] if ids else []
            for (name, table), ids in given
        }

    def commit(self, home: list[int], other: list[int], ticket: RoundTicket | None = None) -> Stamp:
        ticket = ticket or self.writer.begin()
        files = self.write(ticket, home, other)
        count = len(home) + len(other)
        seen = self.writer.stamp.positions["orders"].next[0]
        return self.writer.commit(
            ticket, files, positions=at(seen + count), read=count, written=count, watermark=None
        )

    def check(self, home: list[int], other: list[int]) -> Stamp:
        assert self.readers[1].ids() == sorted(other)
        return self.readers[0].check(P, home)

    def files(self) -> set[str]:
        """Of the pipeline, that are in the store."""
        found: set[str] = set()
        for table in self.writer.tables.values():
            found |= set(table.storage().list(f"{self.writer.folder(table)}/"))
        return found
