"""Metrics reports that engines send after a scan or a commit."""

from __future__ import annotations

import logging

from frazil.catalog import wire
from frazil.catalog.http import Request, Response, Routes, no_content
from frazil.catalog.service import Catalog
from frazil.core.errors import NoSuchTable
from frazil.core.names import split_levels

routes = Routes("/catalog/v1", tag="Tables")

_log = logging.getLogger(__name__)
_COMMIT = "commit-report"
_KINDS = ("scan-report", _COMMIT)


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    body=wire.ReportMetricsRequest,
    status=204,
)
async def report_metrics(catalog: Catalog, request: Request) -> Response:
    """Take a scan or commit report of a table."""
    body, _ = request.json(wire.ReportMetricsRequest)
    levels = split_levels(request.params["namespace"], "namespace")
    # A metric must not grow with what callers make up.
    kind = body.report_type if body.report_type in _KINDS else "other"
    try:
        await catalog.load(request.params["prefix"], levels, request.params["table"], "table")
    except NoSuchTable:
        # `CREATE TABLE … AS SELECT` tells of its commit before it makes the table.
        if kind != _COMMIT:
            raise
    catalog.metrics.reports.labels(kind).inc()
    _log.debug("%s of %s, snapshot %s", body.report_type, body.table_name, body.snapshot_id)
    return no_content()
