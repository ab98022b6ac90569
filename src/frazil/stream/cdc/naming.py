"""Which table a topic becomes."""

from __future__ import annotations

import re

from frazil.core.names import check_name

_HOLE = re.compile(r"\{(topic|schema|table)\}")
HOLES = ("topic", "schema", "table")


def table_name(template: str, topic: str) -> str:
    """The name, by the parts of a topic as Debezium names it: server, schema (or database), table.

    >>> table_name("raw_{schema}_{table}", "pg.inventory.orders")
    'raw_inventory_orders'
    """
    parts = topic.split(".")
    values = {
        "topic": topic.replace(".", "_"),
        "schema": parts[-2] if len(parts) > 1 else "",
        "table": parts[-1],
    }
    return check_name(_HOLE.sub(lambda hole: values[hole[1]], template), "the table of a topic")
