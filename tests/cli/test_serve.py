"""`frazil serve` from start to stop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.catalog.api.client import Client, connect

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

pytestmark = pytest.mark.services


def test_the_first_start_needs_nothing_and_is_quick(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")} | {
        "HOME": str(tmp_path)
    }
    started = time.monotonic()
    server = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", "serve", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        first = server.stdout.readline()
        seconds = time.monotonic() - started
        print(f"ready after {seconds:.2f} s")
        assert "is ready" in first
        text = ""
        while "Press Ctrl-C" not in text:
            text += server.stdout.readline()
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/catalog", text)[0])
        for line in (
            "spark.sql.catalog.lake.type=rest",
            "load_catalog(",
            "/management/v1",
            "/docs",
            "/metrics",
        ):
            assert line in text
        catalog = connect(port)
        catalog.create_namespace("a").ok()
        catalog.client.close()
        assert (tmp_path / ".frazil" / "catalog.db").exists()
        server.send_signal(signal.SIGINT)
        assert server.wait(60) in (0, 130)
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()
    finally:
        server.kill()
        server.communicate()


def test_what_was_there_is_there_after_a_restart(tmp_path: Path) -> None:
    with FrazilServer(tmp_path) as server:
        catalog = connect(server.port)
        catalog.create_namespace("a").ok()
        created = catalog.create_table(("a",), "t").ok()
        catalog.client.close()
        server.restart()
        again = connect(server.port)
        assert again.prefix == catalog.prefix
        assert again.load(("a",), "t").ok() == created
        again.client.close()


def test_files_that_hold_secrets_are_ours_alone(tmp_path: Path) -> None:
    with FrazilServer(tmp_path) as server:
        assert (server.data_dir / "secret.key").stat().st_mode & 0o077 == 0
        assert server.data_dir.stat().st_mode & 0o077 == 0


def test_the_log_is_json_with_request_ids_and_no_secrets(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    password = url.partition("@")[0].rpartition(":")[2]
    key = "5ec2e7" * 10 + "abcd"
    with FrazilServer(database_url=url, environment={"FRAZIL_ENCRYPTION_KEY": key}) as server:
        client = Client(server.port)
        client.send("GET", "/catalog/v1/config?warehouse=hunter2", headers={"x-request-id": "my-id"}).refused(
            404
        )
        client.send(
            "POST", "/management/v1/warehouse", {"warehouse-name": "x", "storage-credential": "hunter2"}
        )
        client.send("GET", "/catalog/v1/config", headers={"Authorization": "Bearer hunter2"}).ok()
        client.close()
        server.stop()
        text = server.log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert any(line.get("request-id") == "my-id" and line["status"] == 404 for line in lines)
    assert all({"time", "level"} <= set(line) for line in lines)
    for secret in (password, key, "hunter2"):
        assert secret not in text


def test_another_key_is_refused(tmp_path: Path) -> None:
    with FrazilServer(tmp_path):
        pass
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
    failed = subprocess.run(
        [sys.executable, "-m", "frazil.cli", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")],
        env={**environment, "FRAZIL_ENCRYPTION_KEY": "ab" * 32},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert failed.returncode == 1
    assert "another key" in failed.stderr
    assert "abab" not in failed.stderr


def test_liveness_and_readiness_when_the_database_goes_and_comes() -> None:
    with Postgres(fsync=False) as own, FrazilServer(database_url=own.create_database("ready")) as server:
        client = Client(server.port)
        assert client.send("GET", "/health/ready").ok() == {"status": "ok", "database": "ok"}
        catalog = connect(server.port)
        own.stop()
        assert client.send("GET", "/health").ok() == {"status": "ok"}
        down = client.send("GET", "/health/ready")
        assert down.status == 503
        assert down.headers["retry-after"]
        assert "database" in down.error()["message"]
        refused = catalog.send("GET", "/namespaces")
        assert refused.status == 503
        refused.error()
        own.start()
        deadline = time.monotonic() + 120
        while client.send("GET", "/health/ready").status != 200:
            assert time.monotonic() < deadline, "it never came back"
            time.sleep(0.1)
        catalog.create_namespace("back").ok()
        catalog.client.close()
        client.close()
        password = own.url.partition("@")[0].rpartition(":")[2]
        assert password not in server.log.read_text()


def test_two_replicas_start_at_once_on_an_empty_database(
    postgres_url: Callable[[], str], tmp_path: Path
) -> None:
    url = postgres_url()
    key = {"FRAZIL_ENCRYPTION_KEY": "cd" * 32}
    command = [sys.executable, "-m", "frazil.cli", "serve", "--port", "0"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
    servers = [
        subprocess.Popen(
            [*command, "--data-dir", str(tmp_path / str(number))],
            env={**clean, **key, "FRAZIL_DATABASE_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(3)
    ]
    try:
        for server in servers:
            assert server.stdout is not None
            assert "is ready" in server.stdout.readline()
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.communicate(timeout=60)


def test_metrics_and_openapi_are_served(frazil_sqlite: FrazilServer) -> None:
    client = Client(frazil_sqlite.port)
    metrics = client.send("GET", "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert b"frazil_http_requests_total" in metrics.body
    assert b"process_resident_memory_bytes" in metrics.body
    document = client.send("GET", "/openapi.json").ok()
    assert document["openapi"].startswith("3.1")
    client.close()
