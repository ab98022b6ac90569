"""Tables in the documents that repeat what the code says; `python -m tests.docs.facts` writes them anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from tests.docs.blocks import ROOT, table_after

from frazil.catalog.metrics import RequestMetrics
from frazil.catalog.settings import ServerSettings
from frazil.client.translate import ADLS, GCS, S3, Column
from frazil.client.translate.table import Row
from frazil.core.schema import show_type
from frazil.hot.declared.keys import FILE as HOT_FILE
from frazil.hot.declared.keys import TABLE as HOT_TABLE
from frazil.hot.tiering.metrics import HotMetrics
from frazil.stream.config.kafka_settings import OWNED
from frazil.stream.config.keys import FILE, PIPELINE
from frazil.stream.config.shapes import Either, Record
from frazil.stream.dead_letters import DEAD_LETTERS
from frazil.stream.decode.decoded import Fault
from frazil.stream.events import FreshnessBroken, FreshnessReported, TableFreshness
from frazil.stream.observe.metrics import Metrics


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


def pipeline_metrics_table() -> list[str]:
    rows = ["| metric | meaning |", "|---|---|"]
    for family in Metrics(("orders",)).registry.collect():
        if family.name.startswith("frazil_"):
            name = family.name + {"counter": "_total"}.get(family.type, "")
            rows.append(f"| `{name}` | {family.documentation} |")
    return rows


def hot_metrics_table() -> list[str]:
    rows, registry = ["| metric | labels | meaning |", "|---|---|---|"], CollectorRegistry()
    metrics = HotMetrics(registry)
    # Labels are told of what was measured alone.
    metrics.notify(FreshnessReported("hot", (TableFreshness("a.b", 1.0, 1.0, 1, watermark=1),)))
    metrics.notify(FreshnessBroken("hot", "a.b", 2.0, 1.0, "round"))
    for family in registry.collect():
        name = family.name + {"counter": "_total"}.get(family.type, "")
        labels = ", ".join(f"`{label}`" for label in family.samples[0].labels)
        rows.append(f"| `{name}` | {labels} | {family.documentation} |")
    return rows


def credentials_table(rows: tuple[Row, ...], headings: dict[Column, str]) -> list[str]:
    """Iceberg's names and those of the consumers that `headings` has a name for."""
    lines = [f"| Iceberg | {' | '.join(headings.values())} |", "|---" * (len(headings) + 1) + "|"]
    for row in rows:
        cells = [", ".join(f"`{key}`" for key in row.keys)]
        for column in headings:
            names = [cell.name.replace("/", ".") for cell in row.cells.get(column, ())]
            cells.append(", ".join(f"`{name}`" for name in names))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def s3_credentials() -> list[str]:
    headings = {Column.HADOOP: "S3A", Column.PYARROW: "pyarrow", Column.FSSPEC: "s3fs"}
    headings |= {Column.BOTO3: "boto3", Column.DUCKDB: "DuckDB", Column.ENVIRONMENT: "environment"}
    return credentials_table(S3, headings)


def gcs_credentials() -> list[str]:
    headings = {Column.HADOOP: "Google's connector", Column.PYARROW: "pyarrow"}
    return credentials_table(GCS, {**headings, Column.FSSPEC: "gcsfs", Column.DUCKDB: "DuckDB"})


def adls_credentials() -> list[str]:
    headings = {Column.HADOOP: "ABFS", Column.PYARROW: "pyarrow"}
    return credentials_table(ADLS, {**headings, Column.FSSPEC: "adlfs", Column.DUCKDB: "DuckDB"})


def keys_table(record: Record, leave_out: tuple[str, ...] = ()) -> list[str]:
    """Every key with those inside it, as the loader knows them."""
    rows = ["| key | default | meaning |", "|---|---|---|"]

    def add(keys: Record, prefix: str) -> None:
        for name, spec in keys.keys.items():
            if name in leave_out:
                continue
            choice = ", ".join(f"`{other}`" for other in keys.one_of)
            must = spec.needed or spec.required
            needed = f"one of {choice}" if name in keys.one_of else "needed" if must else ""
            default = spec.default or needed
            rows.append(f"| `{prefix}{name}` | {default} | {spec.about} |")
            inner = spec.shape.table if isinstance(spec.shape, Either) else spec.shape
            if isinstance(inner, Record):
                add(inner, f"{prefix}{name}.")

    add(record, "")
    return rows


def kafka_table() -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in OWNED.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    rows = ["| settings | why they are refused |", "|---|---|"]
    return rows + [f"| {', '.join(names)} | {reason} |" for reason, names in reasons.items()]


def letters_table() -> list[str]:
    rows = ["| column | type | |", "|---|---|---|"]
    for field in DEAD_LETTERS:
        required = " required" if field.required else ""
        rows.append(f"| `{field.name}` | {show_type(field.type)}{required} | {field.doc or ''} |")
    return rows


def faults_table() -> list[str]:
    return ["| `fault` | meaning |", "|---|---|", *(f"| `{fault}` | {FAULTS[fault]} |" for fault in Fault)]


def contracts_table() -> list[str]:
    """What the test of contracts expects."""
    from tests.stream.test_contracts import DEAD, DRIFT, EXPECTED, STOP, WORDS

    outcomes = {DEAD: "dead letter", STOP: "stops"}
    rows = [f"| what comes | {' | '.join(f'`{word}`' for word in WORDS)} |", "|---" * (len(WORDS) + 1) + "|"]
    for kind, record in DRIFT.items():
        found = (EXPECTED[kind][word] for word in WORDS)
        cells = [outcomes[each] if isinstance(each, str) else f"`{json.dumps(each)}`" for each in found]
        rows.append(f"| {kind}: `{json.dumps(record)}` | {' | '.join(cells)} |")
    return rows


FAULTS = {
    Fault.BROKEN: "not well-formed: no JSON, cut off, too deep",
    Fault.EMPTY: "a record without a value",
    Fault.TYPE: "a value does not fit its column",
    Fault.MISSING: "a required column has no value",
    Fault.UNKNOWN_FIELD: "a field that no column has, and the contract discards or cannot take it",
    Fault.UNKNOWN_SCHEMA: "the registry does not know the schema of the record",
    Fault.TOO_LARGE: "more bytes than `limits.bytes_per_record`",
    Fault.ROUTE: "a good record that is for no table",
}
LABELS = {
    "frazil_http_requests_total": "`operation`, `status`",
    "frazil_http_request_seconds": "`operation`",
    "frazil_metrics_reports_total": "`type`",
}
TABLES: dict[str, tuple[Path, Callable[[], list[str]]]] = {
    "settings": (ROOT / "README.md", settings_table),
    "metrics": (ROOT / "docs" / "operations.md", metrics_table),
    "keys of a file": (
        ROOT / "docs" / "pipelines.md",
        lambda: keys_table(FILE, leave_out=("defaults", "pipelines")),
    ),
    "keys of a pipeline": (ROOT / "docs" / "pipelines.md", lambda: keys_table(PIPELINE)),
    "metrics of pipelines": (ROOT / "docs" / "pipelines.md", pipeline_metrics_table),
    "metrics of hot tables": (ROOT / "docs" / "tiering.md", hot_metrics_table),
    "settings of Kafka": (ROOT / "docs" / "pipelines.md", kafka_table),
    "columns of dead letters": (ROOT / "docs" / "dead-letters.md", letters_table),
    "faults": (ROOT / "docs" / "dead-letters.md", faults_table),
    "contracts": (ROOT / "docs" / "contracts.md", contracts_table),
    "keys of a hot table": (ROOT / "docs" / "hot.md", lambda: keys_table(HOT_TABLE)),
    "keys of hot.yaml": (ROOT / "docs" / "hot.md", lambda: keys_table(HOT_FILE, leave_out=("tables",))),
    "credentials on S3": (ROOT / "docs" / "client.md", s3_credentials),
    "credentials on GCS": (ROOT / "docs" / "client.md", gcs_credentials),
    "credentials on ADLS": (ROOT / "docs" / "client.md", adls_credentials),
}


def write() -> None:
    for marker, (document, make) in TABLES.items():
        text = document.read_text("utf-8")
        old = "\n".join(table_after(document, marker))
        document.write_text(text.replace(old, "\n".join(make())), "utf-8")


if __name__ == "__main__":
    write()
