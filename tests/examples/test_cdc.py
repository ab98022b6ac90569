"""The example of change data as a user runs it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table.snapshots import Operation

from frazil.cli.example_cdc_lake import differences
from frazil.cli.example_cdc_shop import Rows
from frazil.devstack.frazil_server import FrazilServer

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def test_every_row_is_compared_in_the_end(frazil_sqlite: FrazilServer) -> None:
    found, told, _ = example(frazil_sqlite, "--seconds", "2", "--seed", "3")
    assert found["equal"]
    shop = found["databases"]["postgres"]
    assert shop["changes"] > 0
    assert shop["rolled_back"] > 0
    assert shop["wrong"] == {"pyiceberg": [], "duckdb": []}
    assert [kill["process"] for kill in found["kills"]] == ["frazil-run"]
    assert f"{shop['rows']:,} rows after" in told
    with load_catalog("lake", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        namespaces = [name for (name,) in catalog.list_namespaces() if name.startswith("shop_")]
        (namespace,) = [name for name in namespaces if name.count("_") == 1]
        tables = [catalog.load_table(name) for name in catalog.list_tables(namespace)]
        assert sum(len(table.scan().to_arrow()) for table in tables) == shop["rows"]


@pytest.mark.exhaustive
def test_the_full_form_kills_and_compacts(frazil_sqlite: FrazilServer) -> None:
    found, told, seen = example(frazil_sqlite, "--full", "--seconds", "5", "--seed", "3")
    assert found["equal"]
    assert set(found["databases"]) == {"postgres", "mariadb"}
    for shop in found["databases"].values():
        assert shop["changes"] > 0
        assert shop["rolled_back"] > 0
        assert shop["wrong"] == {"pyiceberg": [], "duckdb": [], "spark": []}
        assert f"{shop['rows']:,} rows after" in told
    runs, workers = found["kills"]
    assert (runs["process"], workers["process"]) == ("frazil-run", "kafka-connect")
    assert {pid for pid, command in seen.items() if "pipelines.yaml" in command} == {
        runs["pid"],
        runs["then"],
    }
    assert {pid for pid, command in seen.items() if "ConnectDistributed" in command} == {
        workers["pid"],
        workers["then"],
    }
    compacted = found["compaction"]
    with load_catalog("lake", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        orders = catalog.load_table(compacted["table"])
        snapshots = [snapshot.snapshot_id for snapshot in orders.snapshots()]
        made = orders.snapshot_by_id(compacted["snapshot"])
        assert made is not None
        assert made.summary is not None
        assert made.summary.operation == Operation.REPLACE
        assert snapshots.index(made.snapshot_id) < len(snapshots) - 1, "the pipeline did not go on behind it"
        namespace, _, _ = compacted["table"].partition(".")
        for each in (namespace, namespace.replace("postgres", "mariadb")):
            assert "priority" in catalog.load_table((each, "orders")).schema().column_names
            assert len(catalog.load_table((each, "refunds")).scan().to_arrow()) > 0


def example(server: FrazilServer, *arguments: str) -> tuple[dict[str, Any], str, dict[int, str]]:
    """What it found, what it told, and the command lines of its children by their process ids."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")}
    own |= {"LAKEKEEPER": server.uri}
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", "example", "cdc", *arguments, "--json"],
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    seen: dict[int, str] = {}
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(process.pid, seen, ended))
    watching.start()
    try:
        out, err = process.communicate(timeout=1800)
    finally:
        ended.set()
        watching.join()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out + err
    return json.loads(out), err, seen


def watch(parent: int, seen: dict[int, str], ended: threading.Event) -> None:
    while not ended.wait(0.2):
        for entry in Path("/proc").iterdir():
            # It may end while it is looked at.
            with contextlib.suppress(OSError):
                if not entry.name.isdigit() or _parent(entry) != parent:
                    continue
                # Of one that has ended, and that nobody has waited for yet, it is empty.
                if command := (entry / "cmdline").read_text(errors="replace"):
                    seen[int(entry.name)] = command


def _parent(entry: Path) -> int:
    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def test_a_difference_is_told() -> None:
    wanted: Rows = {("orders", "1"): [{"id": "1", "n": "2"}], ("orders", "2"): [{"id": "2"}]}
    found: Rows = {("orders", "1"): [{"id": "1", "n": "3"}], ("orders", "3"): [{"id": "3"}]}
    assert differences(wanted, found) == [
        "orders: the row 1 differs",
        "orders: the row 2 is missing",
        "orders: the row 3 is not in the database",
    ]
    twice: Rows = {("orders", "2"): [{"id": "2"}, {"id": "2"}]}
    assert differences({("orders", "2"): [{"id": "2"}]}, twice) == [
        "orders: the row 2 is there more than once"
    ]
    assert differences(wanted, dict(wanted)) == []
