"""The sensor example as a user runs it: locally, by spark-submit, stopped, started again, for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import frazil
from tests.stream.sinks.shelf import Shelf, bucket_shelf, fresh

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.devstack.sts_proxy import StsProxy
from frazil.jvm.java import find_java

PROGRAM = Path(__file__).parents[2] / "examples" / "sensors" / "sensors.py"
SUBMIT = Path(sys.executable).with_name("spark-submit")
pytestmark = [pytest.mark.jvm, pytest.mark.slow]
_SECONDS = 600
#: Variables of whoever runs the tests.
_OTHERS = ("AWS_", "FRAZIL_", "OAUTH_", "TOKEN")


@dataclass
class Example:
    """Runs of the example with the same settings, each in a process of its own."""

    shelf: Shelf
    directory: Path
    settings: dict[str, str]
    table: str = field(default_factory=lambda: fresh("readings"))

    def start(self, *command: str) -> subprocess.Popen[str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
        own |= {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
        own |= {"JDK_JAVA_OPTIONS": " ".join(find_java().options), "TMPDIR": str(self.directory)}
        # The rest comes from the file.
        own |= {"LAKEKEEPER": self.shelf.server.uri, "TABLE": self.table}
        given = {"WAREHOUSE_ID": self.shelf.warehouse} | self.settings
        (self.directory / ".env.local").write_text("".join(f"{k}={v}\n" for k, v in given.items()))
        return subprocess.Popen(
            command or (sys.executable, "-m", "frazil.cli", "example", "sensors"),
            cwd=self.directory,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str) -> tuple[list[str], str]:
        with ended(self.start(*command)) as process:
            out, err = process.communicate(timeout=_SECONDS)
        assert process.returncode == 0, out + err
        return out.splitlines(), err

    def rows(self) -> list[list[dict[str, Any]]]:
        return self.shelf.rows(f"iot.{self.table}")


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """With all its children."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


@pytest.fixture
def shelf(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Shelf:
    return bucket_shelf(frazil_sqlite, object_store)


def readings(files: list[list[dict[str, Any]]]) -> list[int]:
    return [row["reading"] for rows in files for row in rows]


def test_it_streams_and_goes_on(shelf: Shelf, tmp_path: Path) -> None:
    settings = {"NUM_RECORDS": "11", "BATCH_SIZE": "4", "BATCH_INTERVAL_MS": "200", "NUM_SENSORS": "3"}
    example = Example(shelf, tmp_path, settings)
    told, err = example.run()
    where = shelf.location(f"iot.{example.table}")
    assert told[:4] == [
        f"Created  iot.{example.table} → {where}",
        f"Location: {where}",
        "[frazil] vended credential keys: [s3.access-key-id, s3.secret-access-key, s3.session-token]",
        f"Streaming 4 records/file every 0.2s from 3 sensors → {where}",
    ]
    assert told[-1] == "Done: 11 records in 3 files; Spark read 11 back."
    assert err == ""
    first = example.rows()
    assert [len(rows) for rows in first] == [4, 4, 3]
    assert readings(first) == list(range(11))
    assert {row["sensor_id"] for rows in first for row in rows} == {"sensor-001", "sensor-002", "sensor-003"}
    # Once more: there is nothing to add; and with a higher number only what is missing.
    example.settings["NUM_RECORDS"] = "16"
    told, _ = example.run()
    assert told[0] == f"Exists   iot.{example.table} → {where}"
    assert "Going on behind what an earlier run published." in told
    assert readings(example.rows()) == list(range(16))
    assert [len(rows) for rows in example.rows()] == [4, 4, 3, 4, 1]
    assert {path.name for path in tmp_path.iterdir()} <= {".env.local"} | {
        path.name for path in tmp_path.glob("hsperfdata_*")
    }


def test_by_spark_submit(shelf: Shelf, tmp_path: Path) -> None:
    settings = {"NUM_RECORDS": "6", "BATCH_SIZE": "3", "BATCH_INTERVAL_MS": "200"}
    example = Example(shelf, tmp_path, settings)
    told, _ = example.run(str(SUBMIT), str(PROGRAM))
    assert told[-1] == "Done: 6 records in 2 files; Spark read 6 back."
    assert [len(rows) for rows in example.rows()] == [3, 3]
    assert readings(example.rows()) == list(range(6))


def test_ctrl_c(frazil_sqlite: FrazilServer, tmp_path: Path) -> None:
    """For ever, into a local folder, until somebody presses Ctrl-C."""
    example = Example(Shelf(frazil_sqlite), tmp_path, {"BATCH_SIZE": "2", "BATCH_INTERVAL_MS": "300"})
    with ended(example.start()) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Published") and "4 in all" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        rest, err = process.communicate(timeout=_SECONDS)
    told = "".join(lines) + rest
    assert process.returncode == 0, told + err
    assert "vended credential keys: none" in told
    assert rest.splitlines()[-1].startswith("Stopped: ")
    assert err == ""
    files = example.rows()
    assert {len(rows) for rows in files} == {2}
    assert readings(files) == list(range(2 * len(files)))


@pytest.mark.exhaustive
def test_ctrl_c_by_spark_submit(frazil_sqlite: FrazilServer, tmp_path: Path) -> None:
    """A terminal tells Java as well, which ends at once; nothing stays, and nothing is lost."""
    example = Example(Shelf(frazil_sqlite), tmp_path, {"BATCH_SIZE": "2", "BATCH_INTERVAL_MS": "300"})
    with ended(example.start(str(SUBMIT), str(PROGRAM))) as process:
        assert process.stdout is not None
        assert any(line.startswith("Published") and "4 in all" in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=_SECONDS)
        deadline = time.monotonic() + _SECONDS
        while _alive(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    example.settings["NUM_RECORDS"] = "20"
    example.run()
    assert readings(example.rows()) == list(range(20))


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_says_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a server that asks, with what `.env.local` has and the environment has not."""
    few = {"NUM_RECORDS": "3", "BATCH_SIZE": "2", "BATCH_INTERVAL_MS": "200"}
    server = FrazilServer()
    made = frazil("client", "create", "sensors", "--json", "--data-dir", str(server.data_dir))
    assert made.returncode == 0, made.stderr
    secret = json.loads(made.stdout)["client-secret"]
    with server:
        nobody = Example(Shelf(server), tmp_path, few)
        with ended(nobody.start()) as process:
            _, err = process.communicate(timeout=_SECONDS)
        assert process.returncode == 1
        assert "The client has no token" in err
        known = {"OAUTH_CLIENT_ID": "sensors", "OAUTH_CLIENT_SECRET": secret}
        example = Example(Shelf(server), tmp_path, few | known)
        told, err = example.run()
        assert told[-1] == "Done: 3 records in 2 files; Spark read 3 back."
        assert secret not in "".join(told) + err
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        assert readings(example.rows()) == [0, 1, 2]


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    shelf = Shelf(FrazilServer())
    example = Example(shelf, tmp_path, {})
    with ended(example.start()) as process:
        out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("frazil: "), err
    assert "Traceback" not in err


@pytest.mark.exhaustive
def test_beyond_the_first_keys(
    frazil_sqlite: FrazilServer, object_store: ObjectStore, tmp_path: Path
) -> None:
    """Keys live for 24 s, the example for more than two such lives. No key is in any output."""
    lifetime = 24
    with StsProxy(object_store, lifetime) as sts:
        shelf = bucket_shelf(frazil_sqlite, object_store, **{"sts-endpoint": sts.endpoint})
        settings = {"NUM_RECORDS": "200", "BATCH_SIZE": "5", "BATCH_INTERVAL_MS": "1500"}
        example = Example(shelf, tmp_path, settings)
        began = time.monotonic()
        told, err = example.run()
        assert time.monotonic() - began > 2 * lifetime
        assert told[-1] == "Done: 200 records in 40 files; Spark read 200 back.", told
        assert [len(rows) for rows in example.rows()] == [5] * 40
        assert readings(example.rows()) == list(range(200))
        assert len(sts.given) > 2
        text = json.dumps(told) + err + frazil_sqlite.log.read_text()
        for session in sts.given:
            assert not any(secret in text for secret in (session.access, session.secret, session.token))
