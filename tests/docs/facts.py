"""Tables in the documents that repeat what the code says; `python -m tests.docs.facts` writes them anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tests.docs.blocks import ROOT, table_after

from frazil.catalog.metrics import RequestMetrics
from frazil.catalog.settings import ServerSettings


def settings_table() -> list[str]:
    rows = ["| flag | environment | default | meaning |", "|---|---|---|---|"]
    for spec in dataclasses.fields(ServerSettings):
        flag = f"`--{spec.name.replace('_', '-')}`" if spec.metadata["flag"] else "none"
        if isinstance(spec.default, bool):
            default = f"`{str(spec.default).lower()}`"
        else:
            default = "" if spec.default is None else f"`{spec.default}`"
        rows.append(f"| {flag} | `FRAZIL_{spec.name.upper()}` | {default} | {spec.metadata['about']} |")
    return rows


def metrics_table() -> list[str]:
    rows = ["| metric | labels | meaning |", "|---|---|---|"]
    for family in RequestMetrics().registry.collect():
        if not family.name.startswith("frazil_"):
            continue
        name = family.name + {"counter": "_total"}.get(family.type, "")
        rows.append(f"| `{name}` | {LABELS.get(name, '')} | {family.documentation} |")
    return rows


LABELS = {
    "frazil_http_requests_total": "`operation`, `status`",
    "frazil_http_request_seconds": "`operation`",
    "frazil_metrics_reports_total": "`type`",
}
TABLES: dict[str, tuple[Path, Callable[[], list[str]]]] = {
    "settings": (ROOT / "README.md", settings_table),
    "metrics": (ROOT / "docs" / "operations.md", metrics_table),
}


def write() -> None:
    for marker, (document, make) in TABLES.items():
        text = document.read_text("utf-8")
        old = "\n".join(table_after(document, marker))
        document.write_text(text.replace(old, "\n".join(make())), "utf-8")


if __name__ == "__main__":
    write()
