"""Jobs that outlive their first keys, and their second; and where the keys are not to be seen meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.catalog import load_catalog
from tests.vending.long_jobs import BATCH, NAMESPACE
from tests.vending.support import BUCKET, VENDED, Lake

from frazil.devstack.sts_proxy import Session, StsProxy

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
#: Keys are used until half of it is over: the other half is for a batch on a busy machine.
LIFETIME = 30
PREFIX = "long-jobs"


@dataclass(frozen=True)
class Finished:
    """What the program left behind."""

    summary: dict[str, Any]
    events: str
    logs: str
    plans: str
    given: list[Session]


@pytest.fixture(scope="module")
def finished(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    events = tmp_path_factory.mktemp("events")
    with StsProxy(lake.store, LIFETIME) as sts:
        profile, credential = lake.store.warehouse_storage(BUCKET, PREFIX, **{"sts-endpoint": sts.endpoint})
        _make_tables(lake, profile, credential)
        program = Path(__file__).with_name("long_jobs.py")
        command = [sys.executable, str(program), lake.server.uri, PREFIX, str(events), str(LIFETIME)]
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, cwd=events, env=_environment()
        )
        assert answer.returncode == 0, answer.stderr[-4000:]
        lines = answer.stdout.splitlines()
        [log] = events.glob("local-*")
        texts = log.read_text(), answer.stderr, answer.stdout
        yield Finished(json.loads(lines[-1]), *texts, list(sts.given))


def _environment() -> dict[str, str]:
    """No key from outside can help."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FRAZIL_"))}


def _make_tables(lake: Lake, profile: dict[str, Any], credential: dict[str, str]) -> None:
    with lake.new_client() as client:
        client.warehouses.create(PREFIX, profile, credential)
        jobs = client.at(PREFIX)
        jobs.namespaces.create(NAMESPACE)
        for name in ("by_s3a", "by_tasks"):
            place = f"s3://{BUCKET}/{PREFIX}/{name}"
            jobs.generic_tables.create(NAMESPACE, name, "dataset", base_location=place)
    with load_catalog("l", type="rest", uri=lake.server.catalog_uri, warehouse=PREFIX, **VENDED) as catalog:
        # So small that every thousand rows begin a new file, each to be opened with keys of its own time.
        properties = {"write.target-file-size-bytes": "512"}
        schema = pa.schema([("id", pa.int64())])
        catalog.create_table((NAMESPACE, "by_fileio"), schema=schema, properties=properties)


def _ids(lake: Lake, name: str, kind: str) -> list[int]:
    files = lake.owner_files()
    found = ds.dataset(f"{BUCKET}/{PREFIX}/{name}", format=kind, filesystem=files).to_table(columns=["id"])
    ids: list[int] = found["id"].to_pylist()
    return sorted(ids)


def _written_at(lake: Lake, files: list[str]) -> list[datetime]:
    store = lake.admin()
    keys = [file.removeprefix(f"s3://{BUCKET}/") for file in files]
    return sorted(store.head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in keys)


def test_through_s3a_with_new_keys_between_batches(finished: Finished, lake: Lake) -> None:
    assert finished.summary["seconds"] > 2 * LIFETIME
    assert finished.summary["s3a_keys"] > 2
    assert _ids(lake, "by_s3a", "json") == list(range(finished.summary["rounds"] * BATCH))


def test_through_s3fileio_which_renews_by_itself(finished: Finished, lake: Lake) -> None:
    with load_catalog("l", type="rest", uri=lake.server.catalog_uri, warehouse=PREFIX, **VENDED) as catalog:
        table = catalog.load_table((NAMESPACE, "by_fileio"))
        ids = sorted(table.scan().to_arrow()["id"].to_pylist())
        [snapshot] = table.snapshots()
        files = table.inspect.files()
    assert ids == list(range(len(ids)))
    # By the store's clock. How many files fit into that time is the machine's affair.
    written = _written_at(lake, files["file_path"].to_pylist())
    assert (written[-1] - written[0]).total_seconds() >= LIFETIME, "the one append did not last"
    assert files.num_rows * BATCH == len(ids)
    assert snapshot.summary is not None
    assert snapshot.summary["added-records"] == str(len(ids))


def test_in_tasks_with_keys_from_a_broadcast(finished: Finished, lake: Lake) -> None:
    assert _ids(lake, "by_tasks", "parquet") == list(range(2 * finished.summary["rounds"] * BATCH))


@pytest.mark.parametrize("place", ["events", "logs", "plans"])
def test_no_key_is_seen(finished: Finished, place: str) -> None:
    text: str = getattr(finished, place)
    # It is the right text: it tells of all this.
    telling = {"events": "SparkListenerSQLExecutionStart", "logs": " INFO ", "plans": "Physical Plan"}
    assert telling[place] in text
    assert f"{PREFIX}/by_{'tasks' if place == 'logs' else 's3a'}" in text
    assert len(finished.given) > 6
    for session in finished.given:
        for secret in (session.access, session.secret, session.token):
            assert secret not in text


def test_the_server_logs_no_key(finished: Finished, lake: Lake) -> None:
    log = lake.server.log.read_text()
    assert "load_credentials" in log
    for session in finished.given:
        assert not any(secret in log for secret in (session.access, session.secret, session.token))
