"""Whether a table that evidence names can be an endpoint that the plan names otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import combinations

from frazil.lineage.flink.resolve.found import Found
from frazil.lineage.model import Direction, Endpoint, TracedJob

#: A sink that the planner named itself: `orders[11]: Writer`, `Sink: orders[11]`, `Sink(table=[…], …)`.
_PRINTED = re.compile(r"(?:Sink: )?(?:[^:]*\[\d+\](?:: Writer|$)|(?:Legacy)?Sink\()")
#: What SQL names after tables: `orders[11]`, `Sink(table=[…], …)`, and `Writer : orders` of connectors.
_OF_TABLES = re.compile(r"\[\d+\]|table=\[|(?:^| -> )(?:Writer|(?:Global )?Committer)(?:\([^)]*\))? : ")
#: Operators of Flink's filesystem sink, which does not print its table.
FILES = frozenset({"Filesystem", "StreamingFileWriter", "PartitionCommitter"})


def _written(endpoint: Endpoint) -> tuple[str, ...] | None:
    """Only what a query writes goes by position."""
    return endpoint.columns if endpoint.direction is Direction.WRITE else None


def claimed_names(traced: TracedJob) -> Set[str]:
    """Tables that sinks of a job name in full: one whose name is only alike is a different table."""
    sinks = (endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE)
    return {name for endpoint in sinks if (name := full_name(endpoint))}


def full_name(sink: Endpoint) -> str:
    """Database and table, if the sink names them; Iceberg's sinks print nested namespaces as well."""
    if len(sink.path) == 3:
        return ".".join(sink.path[1:])
    return sink.name.partition(".")[2] if sink.hints.get("connector") == "iceberg" else ""


def readings(name: str) -> Iterator[tuple[str, str, str]]:
    """The ways in which more than three parts are a catalog, a database and a table."""
    parts = name.split(".")
    if len(parts) > 3:
        for first, second in combinations(range(1, len(parts)), 2):
            yield ".".join(parts[:first]), ".".join(parts[first:second]), ".".join(parts[second:])


def may_be(found: Found, endpoint: Endpoint) -> bool:
    """Whether a table can be what an endpoint is that does not name it in full."""
    return prints_so(found, endpoint) and found.fits(_written(endpoint))


def prints_so(found: Found, endpoint: Endpoint) -> bool:
    """Whether the operators of such a table can be called what the endpoint's are."""
    return found.named.platform != "iceberg" or not is_other(endpoint)


def is_other(endpoint: Endpoint) -> bool:
    """Iceberg's sinks name themselves, in every release: one that the planner named is of another kind."""
    if endpoint.direction is Direction.READ:
        return False
    return endpoint.name in FILES or _PRINTED.match(endpoint.operator) is not None


def is_called_as_a_table(endpoint: Endpoint) -> bool:
    """Whether an operator has its name from a table: a program may call its own ones anything."""
    return bool(endpoint.path) or _OF_TABLES.search(endpoint.operator) is not None


def same_name(found: Found, endpoint: Endpoint) -> bool:
    """Whether a table is called what the endpoint is called; catalogs may have another name elsewhere."""
    wanted = ".".join(endpoint.path[-2:] or (endpoint.name,)).split(".")
    known = found.named.name.split(".")
    length = min(len(wanted), len(known))
    return known[-length:] == wanted[-length:]
