"""The example of change data as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from pyiceberg.catalog import load_catalog

from frazil.cli.example_cdc import Rows, _differences
from frazil.devstack.frazil_server import FrazilServer

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def test_every_row_is_compared_in_the_end(frazil_sqlite: FrazilServer) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")}
    own |= {"LAKEKEEPER": frazil_sqlite.uri}
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", "example", "cdc", "--seconds", "2", "--seed", "3", "--json"],
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out + err
    found = json.loads(out)
    assert found["equal"]
    assert found["changes"] > 0
    assert f"{found['rows']:,} rows, all equal" in err
    with load_catalog("lake", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        (namespace,) = [name for (name,) in catalog.list_namespaces() if name.startswith("shop_")]
        tables = [catalog.load_table(name) for name in catalog.list_tables(namespace)]
        assert sum(len(table.scan().to_arrow()) for table in tables) == found["rows"]


def test_a_difference_is_told() -> None:
    wanted: Rows = {("orders", "1"): {"id": "1", "n": "2"}, ("orders", "2"): {"id": "2", "n": None}}
    found: Rows = {("orders", "1"): {"id": "1", "n": "3"}, ("orders", "3"): {"id": "3", "n": None}}
    assert _differences(wanted, found) == [
        "orders: the row 1 differs",
        "orders: the row 2 is missing",
        "orders: the row 3 is not in the database",
    ]
    assert _differences(wanted, dict(wanted)) == []
