"""Whether a table has all rows of a time: what a batch job asks before it reads."""

from __future__ import annotations

from datetime import datetime

from frazil.client import Client
from frazil.client.naming import identifier
from frazil.core.moments import moment
from frazil.core.stamp import check_pipeline_name
from frazil.lake.authority import MetadataHistory, find_stamp


def complete_until(table: str, pipeline: str, *, client: Client | None = None) -> datetime | None:
    """The event time up to which a pipeline's rows are all in its table; None: that is not known.

    Only pipelines that keep state know it: others let late records through, at any time. An answer stays
    true, so that a query that begins after it sees all of these rows. `client` is one of the table's
    warehouse, else that of the environment.

    >>> from datetime import UTC
    >>> hour_ends = datetime(2026, 3, 1, 13, tzinfo=UTC)
    >>> until = complete_until("shop.clicks_per_hour", "clicks")  # doctest: +SKIP
    >>> until is not None and until >= hour_ends  # doctest: +SKIP
    True
    """
    namespace, name = identifier(table)
    check_pipeline_name(pipeline)
    if client is None:
        with Client() as own:
            return complete_until(table, pipeline, client=own)
    stamp = find_stamp(MetadataHistory(client.tables.load(namespace, name).metadata), pipeline)
    # The watermark of any other pipeline tells how far its records have come, and is no promise.
    if stamp is None or stamp.query is None or stamp.watermark is None:
        return None
    return moment(stamp.watermark)
