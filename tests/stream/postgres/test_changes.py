"""Tables of one database, each with a stamp of its own."""

from __future__ import annotations

import pytest
from tests.stream.postgres.test_source import source_of

from frazil.core.errors import SourceChanged
from frazil.core.stamp import Stamp
from frazil.stream.config.model import Limits
from frazil.stream.postgres.changes import PostgresChanges


def test_tables_that_were_read_from_two_servers_do_not_go_on() -> None:
    feed = PostgresChanges(source_of(), "shop")
    stamps = {
        topic: Stamp(pipeline="shop", epoch=1, round=0, token="t", source=server, positions={})
        for topic, server in (("a", "postgresql:1/1/d"), ("b", "postgresql:1/2/d"))
    }
    with pytest.raises(SourceChanged, match=r"several servers \(a postgresql:1/1/d, b postgresql:1/2/d\)"):
        feed.begin(stamps, Limits())
