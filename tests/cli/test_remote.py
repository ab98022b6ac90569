"""The commands that talk to a server, as people and scripts run them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from tests.catalog.api.client import add_snapshot, connect, schema
from tests.cli.conftest import Command, Run

from frazil.cli.main import cli
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore

Frazil = Callable[..., Run]


@pytest.fixture
def frazil(command: Command, frazil_sqlite: FrazilServer) -> Frazil:
    """The command, pointed at the shared server."""

    def run(*arguments: str, **environment: str) -> Run:
        return command(*arguments, environment={"FRAZIL_URI": frazil_sqlite.uri, **environment})

    return run


@pytest.fixture
def namespace(frazil: Frazil) -> str:
    name = f"cli_{uuid.uuid4().hex[:10]}"
    assert frazil("namespace", "create", name).returncode == 0
    return name


def unique(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def done(run: Run) -> str:
    assert run.returncode == 0, run.stderr
    return run.stdout


def parsed(run: Run) -> Any:
    return json.loads(done(run))


def refused(run: Run, *words: str, code: int = 1) -> None:
    assert run.returncode == code, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    for word in words:
        assert word in run.stderr
    assert not run.stdout


def rows(run: Run) -> list[list[str]]:
    """The cells of a printed table; its columns must be aligned."""
    lines = done(run).splitlines()
    for start in [match.start() for match in re.finditer(r"(?<= )\S", lines[0])]:
        assert all(line[start - 1 : start] in ("", " ") for line in lines), lines
    return [line.split() for line in lines]


def test_help_has_examples(command: Command) -> None:
    for group in ("warehouse", "namespace", "table", "generic", "credentials"):
        shown = command(group, "--help").stdout
        assert f"frazil {group} " in shown
    assert "_FRAZIL_COMPLETE" in command("--help").stdout


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)


def test_help_of_every_command_is_laid_out(command: Command) -> None:
    """A mark of click's in a raw docstring is printed as it stands; a line that is cut says too little."""
    for path in commands(cli):
        shown = command(*path, "--help").stdout
        assert "\\b" not in shown, path
        examples = [line for line in shown.splitlines() if line.startswith("  frazil ")]
        assert all(line.count("frazil ") == 1 for line in examples), path
    assert not re.search(r"\.\.\.$", command("--help").stdout.partition("Commands:")[2], re.MULTILINE)


def test_a_command_does_not_wait_for_the_others() -> None:
    program = (
        "import sys; from frazil.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    run = [sys.executable, "-c", program, "namespace", "--help"]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stderr.split()
    assert "frazil.cli.namespace" in loaded
    assert not {"asyncio", "httpx", "frazil.catalog", "frazil.cli.serve", "frazil.cli.demo"} & set(loaded)


def test_similar_commands_are_suggested(command: Command) -> None:
    refused(command("namespaces"), "Did you mean 'namespace'?", code=2)


def test_warehouses(frazil: Frazil, tmp_path: Path) -> None:
    name, path = unique("scratch"), str(tmp_path / "scratch")
    checks = rows(frazil("warehouse", "create", name, "--local", path, "--dry-run"))
    assert checks[0] == ["CHECK", "RESULT", "REMARK"]
    assert name in done(frazil("warehouse", "create", name, "--local", path))
    refused(frazil("warehouse", "create", name, "--local", str(tmp_path / "x")), "exists already")
    listed = rows(frazil("warehouse", "list"))
    assert listed[0] == ["NAME", "STATUS", "STORAGE", "ID"]
    (mine,) = [row for row in listed if row[0] == name]
    assert mine[1:3] == ["active", f"file://{path}"]
    shown = parsed(frazil("warehouse", "show", mine[3], "--json"))
    assert shown["name"] == name
    assert shown["storage-profile"]["path"] == path
    assert f"storage     file://{path}" in done(frazil("warehouse", "show", name))
    failed = frazil("warehouse", "create", unique("other"), "--local", path, "--dry-run")
    assert failed.returncode == 1
    assert "overlaps" in failed.stdout
    assert parsed(frazil("warehouse", "rename", name, f"{name}-2", "--json"))["warehouse-id"] == mine[3]
    done(frazil("warehouse", "deactivate", f"{name}-2", "--yes"))
    refused(frazil("namespace", "list", "-w", f"{name}-2"), "activate it first")
    done(frazil("warehouse", "activate", f"{name}-2"))
    done(frazil("namespace", "create", "a", "-w", f"{name}-2"))
    refused(frazil("warehouse", "delete", f"{name}-2", "--yes"), "not empty")
    done(frazil("namespace", "drop", "a", "--yes", FRAZIL_WAREHOUSE=f"{name}-2"))
    done(frazil("warehouse", "delete", f"{name}-2", "--yes"))
    refused(frazil("warehouse", "show", f"{name}-2"), "does not exist", "default")


def test_what_a_warehouse_needs(frazil: Frazil, tmp_path: Path) -> None:
    create = ("warehouse", "create", "x")
    refused(frazil(*create), "one of --local, --s3 and --from-file", code=2)
    refused(frazil(*create, "--local", "/a", "--s3", "b"), "one of", code=2)
    refused(frazil(*create, "--s3", "bucket"), "--region", code=2)
    refused(frazil(*create, "--s3", "bucket", "--region", "r"), "AWS_ACCESS_KEY_ID", code=2)
    refused(frazil(*create, "--local", "/a", "--endpoint", "http://x"), "--endpoint goes with --s3", code=2)
    session = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "HUSH", "AWS_SESSION_TOKEN": "t"}
    refused(frazil(*create, "--s3", "bucket", "--region", "r", **session), "short-lived")
    broken = tmp_path / "broken.json"
    broken.write_text('{"secret-access-key": "HUSH"')
    for file, words in ((broken, "not a JSON document"), (tmp_path / "none.json", "cannot read")):
        failed = frazil(*create, "--from-file", str(file))
        refused(failed, words)
        assert "HUSH" not in failed.stderr
    broken.write_text('{"storage-profile": {"type": "local", "path": "/x"}, "storage_credential": "HUSH"}')
    refused(frazil(*create, "--from-file", str(broken)), "'storage_credential' is unknown. Legal: ")


def test_a_warehouse_on_s3(frazil: Frazil, object_store: ObjectStore, tmp_path: Path) -> None:
    """Keys come by environment, by file and inside the request; none is an option."""
    bucket = object_store.create_bucket("cli-lake")
    keys = {"AWS_ACCESS_KEY_ID": object_store.catalog.access}
    keys |= {"AWS_SECRET_ACCESS_KEY": object_store.catalog.secret}
    where = ("--s3", bucket, "--region", object_store.region, "--endpoint", object_store.endpoint)
    first, second, third = unique("env"), unique("file"), unique("request")
    vend = ("--role-arn", object_store.role_arn)
    made = parsed(
        frazil("warehouse", "create", first, *where, *vend, "--key-prefix", first, "--json", **keys)
    )
    assert made["storage-profile"]["sts-enabled"]
    assert made["storage-profile"]["path-style-access"]
    assert made["storage-credential-type"] == {"type": "s3", "credential-type": "access-key"}
    credential = {
        "type": "s3",
        "credential-type": "access-key",
        "access-key-id": object_store.catalog.access,
        "secret-access-key": object_store.catalog.secret,
    }
    file = tmp_path / "credential.json"
    file.write_text(json.dumps(credential))
    said = done(
        frazil("warehouse", "create", second, *where, "--key-prefix", second, "--credential-file", str(file))
    )
    assert "vends no keys, for which --role-arn" in said
    done(frazil("warehouse", "credential", second, "--credential-file", str(file)))
    request = tmp_path / "request.json"
    profile = {**made["storage-profile"], "key-prefix": third}
    request.write_text(json.dumps({"storage-profile": profile, "storage-credential": credential}))
    done(frazil("warehouse", "create", third, "--from-file", str(request)))
    done(frazil("warehouse", "storage", third, "--from-file", str(request)))
    file.write_text(json.dumps({**credential, "secret-access-key": "WRONG-SECRET"}))
    failed = frazil("warehouse", "credential", second, "--credential-file", str(file))
    assert failed.returncode == 1
    assert "WRONG-SECRET" not in failed.stderr
    _credentials(frazil, first)
    for name in (first, second, third):
        done(frazil("warehouse", "delete", name, "--yes"))


def test_a_warehouse_is_deleted_when_its_files_are(frazil: Frazil, object_store: ObjectStore) -> None:
    bucket = object_store.create_bucket("cli-lake")
    name = unique("purged")
    here = {"FRAZIL_WAREHOUSE": name}
    keys = {"AWS_ACCESS_KEY_ID": object_store.catalog.access}
    keys |= {"AWS_SECRET_ACCESS_KEY": object_store.catalog.secret}
    where = ("--s3", bucket, "--region", object_store.region, "--endpoint", object_store.endpoint)
    done(frazil("warehouse", "create", name, *where, "--role-arn", object_store.role_arn, **keys))
    done(frazil("namespace", "create", "ns", **here))
    done(frazil("generic", "create", "ns.t", "--format", "csv", **here))
    delete = ("warehouse", "delete", name, "--yes")
    os.kill(object_store.pid, signal.SIGSTOP)
    try:
        done(frazil("generic", "drop", "ns.t", "--yes", "--purge", **here))
        done(frazil("namespace", "drop", "ns", "--yes", **here))
        refused(frazil(*delete, "--wait", "0"), "still has files of dropped tables to delete")
        threading.Timer(2.0, os.kill, (object_store.pid, signal.SIGCONT)).start()
        assert done(frazil(*delete)) == f"deleted warehouse {name}\n"
    finally:
        os.kill(object_store.pid, signal.SIGCONT)


def test_nobody_waits_for_files_that_are_kept_for_days(frazil: Frazil, tmp_path: Path) -> None:
    name = unique("kept")
    here = {"FRAZIL_WAREHOUSE": name}
    request = tmp_path / "request.json"
    place = {"type": "local", "path": str(tmp_path / "lake")}
    soft = {"type": "soft", "expiration-seconds": 604_800}
    request.write_text(json.dumps({"storage-profile": place, "delete-profile": soft}))
    done(frazil("warehouse", "create", name, "--from-file", str(request)))
    done(frazil("namespace", "create", "ns", **here))
    done(frazil("generic", "create", "ns.t", "--format", "csv", **here))
    done(frazil("generic", "drop", "ns.t", "--yes", "--purge", **here))
    done(frazil("namespace", "drop", "ns", "--yes", **here))
    failed = frazil("warehouse", "delete", name, "--yes", "--wait", "3600")
    refused(failed, "still has files of dropped tables", "not before 20")
    assert "waiting" not in failed.stderr


def _credentials(frazil: Frazil, warehouse: str) -> None:
    """Keys of a generic table in every form."""
    here = {"FRAZIL_WAREHOUSE": warehouse}
    done(frazil("namespace", "create", "sensors", **here))
    table = parsed(frazil("generic", "create", "sensors.raw", "--format", "csv", "--json", **here))
    get = ("credentials", "get", "sensors.raw", "--format")
    config = parsed(frazil(*get, "json", **here))
    assert config["prefix"] == table["base-location"]
    secret = config["config"]["s3.secret-access-key"]
    shown = frazil("credentials", "show", "sensors.raw", **here)
    assert table["base-location"] in done(shown)
    assert secret not in shown.stdout
    assert "s3.secret-access-key" in shown.stdout
    described = parsed(frazil("credentials", "show", "sensors.raw", "--json", **here))
    assert described["prefix"] == config["prefix"]
    assert described["keys"] == sorted(config["config"])
    lines = done(frazil(*get, "env", **here)).splitlines()
    assert all(line.startswith("export AWS_") for line in lines)
    assert f"fs.s3a.bucket.cli-lake.secret.key={secret}" in done(frazil(*get, "hadoop", **here))
    assert done(frazil(*get, "duckdb", **here)).startswith("CREATE OR REPLACE TEMPORARY SECRET")
    assert parsed(frazil(*get, "fsspec", **here))["secret"] == secret
    assert parsed(frazil(*get, "aws-process", **here))["Version"] == 1
    reader = parsed(frazil(*get, "json", "--read-only", **here))
    assert reader["config"]["s3.secret-access-key"] != secret
    refused(
        frazil("credentials", "get", "sensors.none", **here), "no table and no generic table sensors.none"
    )
    loaded = done(frazil("generic", "show", "sensors.raw", "--json", **here))
    assert secret not in loaded
    done(frazil("generic", "drop", "sensors.raw", "--yes", "--purge", **here))
    done(frazil("namespace", "drop", "sensors", "--yes", **here))


def test_namespaces(frazil: Frazil, namespace: str) -> None:
    done(frazil("namespace", "create", f"{namespace}.eu", "-p", "owner=ann", "-p", "note=a=b"))
    done(frazil("namespace", "create", rf"{namespace}.v1\.2"))
    assert rows(frazil("namespace", "list", namespace)) == [
        ["NAMESPACE"],
        [f"{namespace}.eu"],
        [rf"{namespace}.v1\.2"],
    ]
    assert parsed(frazil("namespace", "list", namespace, "--json")) == [
        [namespace, "eu"],
        [namespace, "v1.2"],
    ]
    assert "  note" in done(frazil("namespace", "show", f"{namespace}.eu"))
    changed = frazil("namespace", "set", f"{namespace}.eu", "-p", "x=1", "-r", "owner", "-r", "none")
    assert done(changed) == "set 1, removed 1; not there: none\n"
    refused(frazil("namespace", "set", namespace), "nothing to do", code=2)
    refused(frazil("namespace", "create", "x", "-p", "novalue"), "key=value", code=2)
    refused(frazil("namespace", "drop", namespace, "--yes"), "not empty")
    refused(frazil("namespace", "drop", f"{namespace}.eu"), "Say --yes", code=2)
    done(frazil("namespace", "drop", f"{namespace}.eu", "--yes"))
    refused(frazil("namespace", "show", f"{namespace}.eu"), "does not exist")
    refused(frazil("namespace", "show", "a..b"), "must not be empty")
    refused(frazil("namespace", "create", f"{namespace}.no.ne"), f"{namespace}.no\n", "--parents")
    done(frazil("namespace", "create", f"{namespace}.no.ne", "--parents", "-p", "owner=ann"))
    assert "ann" in done(frazil("namespace", "show", f"{namespace}.no.ne"))


def test_errors_say_what_to_do_next(frazil: Frazil, namespace: str) -> None:
    default, lake = "looked for in the server's default warehouse", "looked for in the warehouse default;"
    refused(frazil("generic", "list", "none"), default, "frazil namespace list")
    refused(frazil("generic", "show", f"{namespace}.x", "-w", "default"), lake, "frazil generic list")
    refused(frazil("table", "show", f"{namespace}.x"), default, "frazil table list", "frazil generic list")
    refused(frazil("credentials", "get", f"{namespace}.x"), default, "frazil generic list")
    refused(frazil("namespace", "list", "-w", "none"), "frazil warehouse list")


def test_tables(frazil: Frazil, namespace: str, frazil_sqlite: FrazilServer) -> None:
    catalog = connect(frazil_sqlite.port)
    location = catalog.create_table([namespace], "orders", schema=schema()).ok()["metadata-location"]
    catalog.create_view([namespace], "recent").ok()
    assert rows(frazil("table", "list", namespace))[1:] == [
        [f"{namespace}.orders", "table"],
        [f"{namespace}.recent", "view"],
    ]
    shown = done(frazil("table", "show", f"{namespace}.orders"))
    assert location in shown
    assert "long not null" in shown
    assert parsed(frazil("table", "show", f"{namespace}.orders", "--metadata"))["format-version"] == 2
    assert parsed(frazil("table", "show", f"{namespace}.orders", "--json"))["metadata-location"] == location
    summary = {"operation": "append", "flink.job-id": "e3b8c5c5"}
    when = {"timestamp-ms": 1_700_000_000_000}
    catalog.commit([namespace], "orders", add_snapshot(1, summary=summary, **when)).ok()
    written, *found = rows(frazil("table", "jobs", f"{namespace}.orders"))
    assert written == ["KIND", "JOB", "COMMITS", "FIRST", "LAST"]
    assert found == [["flink", "e3b8c5c5", "1", "2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20+00:00"]]
    assert parsed(frazil("table", "jobs", f"{namespace}.orders", "--json"))[0]["id"] == "e3b8c5c5"
    done(frazil("table", "rename", f"{namespace}.orders", f"{namespace}.sales"))
    refused(frazil("table", "drop", f"{namespace}.sales"), "Drop the table", code=2)
    done(frazil("table", "drop", f"{namespace}.sales", "--yes"))
    done(frazil("table", "register", f"{namespace}.again", location))
    assert "being deleted" in done(frazil("table", "drop", f"{namespace}.again", "--purge", "--yes"))
    refused(frazil("table", "show", f"{namespace}.again"), "does not exist")
    refused(frazil("table", "show", "orders"), "write namespace.name")


def test_generic_tables(frazil: Frazil, namespace: str) -> None:
    raw = f"{namespace}.raw"
    created = frazil("generic", "create", raw, "--format", "csv", "--doc", "readings", "-p", "sep=;")
    assert f"generic table {raw} (csv) is at file://" in done(created)
    assert done(frazil("generic", "create", raw, "--format", "csv")) == created.stdout
    refused(frazil("generic", "create", raw, "--format", "csv", "--new"), "already exists")
    refused(frazil("generic", "create", raw, "--format", "lance"), "'csv', not 'lance'")
    refused(frazil("generic", "create", raw, "--format", "No Format"), "format")
    listed = rows(frazil("generic", "list", namespace))
    assert [row[:2] for row in listed] == [["NAME", "FORMAT"], [raw, "csv"]]
    assert "readings" in done(frazil("generic", "show", raw))
    assert parsed(frazil("generic", "show", raw, "--json"))["properties"] == {"sep": ";"}
    refused(frazil("credentials", "show", raw), "its warehouse is local")
    done(frazil("generic", "rename", raw, f"{namespace}.new"))
    done(frazil("generic", "drop", f"{namespace}.new", "--yes"))
    empty = frazil("generic", "list", namespace)
    assert (done(empty), empty.stderr) == ("", "none\n")
    assert parsed(frazil("generic", "list", namespace, "--json")) == []


def test_columns_are_aligned_also_for_wide_characters(frazil: Frazil, namespace: str) -> None:
    for name in ("表", "cafe\u0301", "plain"):
        done(frazil("generic", "create", f"{namespace}.{name}", "--format", "csv"))
    _, *lines = done(frazil("generic", "list", namespace)).splitlines()
    before = [line.partition("  csv  ")[0] for line in lines]
    # One column for each letter, two for the wide one, none for the accent.
    assert [len(text) for text in before] == [len(namespace) + 1 + size for size in (6, 5, 4)]


def test_a_server_that_is_not_there(command: Command) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    refused(command("warehouse", "list", "--uri", uri), uri, "frazil serve", "--uri")


def test_an_issuer_of_tokens_that_is_not_there(command: Command, frazil_sqlite: FrazilServer) -> None:
    """Starting a catalog server would not help."""
    issuer = f"http://127.0.0.1:{free_port()}/token"
    oauth = {"OAUTH_CLIENT_ID": "a", "OAUTH_CLIENT_SECRET": "b", "OAUTH_TOKEN_URL": issuer}
    failed = command("warehouse", "list", "--uri", frazil_sqlite.uri, environment=oauth)
    refused(failed, issuer)
    assert "frazil serve" not in failed.stderr


def test_an_address_that_is_none(command: Command) -> None:
    refused(command("warehouse", "list", "--uri", "localhost:8181"), "http://localhost:8181")


def test_a_server_that_asks_who_you_are(command: Command) -> None:
    token = "static-bootstrap-token-of-the-tests-0123456789"
    with FrazilServer(environment={"FRAZIL_BOOTSTRAP_TOKEN": token}) as server:
        failed = command("warehouse", "list", "--uri", server.uri)
        refused(failed, "set TOKEN, or OAUTH_CLIENT_ID", "frazil client create")
        done(command("warehouse", "list", "--uri", server.uri, environment={"TOKEN": token}))


def on_a_terminal(uri: str, answers: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal of its own and answer each question when it is asked."""
    controller, terminal = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FRAZIL_", "AWS_", "OAUTH_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**clean, "FRAZIL_URI": uri},
        start_new_session=True,
    )
    os.close(terminal)
    shown, waiting = "", list(answers.items())
    try:
        while select.select([controller], [], [], 60)[0]:
            try:
                shown += os.read(controller, 4096).decode()
            except OSError:  # the command has ended and closed its side
                break
            if waiting and waiting[0][0] in shown:
                os.write(controller, f"{waiting.pop(0)[1]}\n".encode())
        return process.wait(60), shown
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def test_a_question_on_a_terminal(frazil: Frazil, namespace: str, frazil_sqlite: FrazilServer) -> None:
    code, shown = on_a_terminal(frazil_sqlite.uri, {"[y/N]": "n"}, "namespace", "drop", namespace)
    assert (code, "Aborted" in shown) == (1, True)
    assert f"Drop the namespace {namespace}? [y/N]" in shown
    done(frazil("namespace", "show", namespace))
    code, shown = on_a_terminal(frazil_sqlite.uri, {"[y/N]": "y"}, "namespace", "drop", namespace)
    assert code == 0, shown
    refused(frazil("namespace", "show", namespace), "does not exist")


def test_keys_are_asked_for_without_being_shown(
    frazil: Frazil, frazil_sqlite: FrazilServer, object_store: ObjectStore
) -> None:
    name, keys = unique("asked"), object_store.catalog
    where = ["--s3", object_store.create_bucket("cli-asked"), "--region", object_store.region]
    where += ["--endpoint", object_store.endpoint, "--key-prefix", name]
    answers = {"Access key id": keys.access, "Secret access key": keys.secret}
    code, shown = on_a_terminal(frazil_sqlite.uri, answers, "warehouse", "create", name, *where)
    assert code == 0, shown
    assert keys.access in shown
    assert keys.secret not in shown
    done(frazil("warehouse", "delete", name, "--yes"))
