"""The command as a user runs it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.running import clean_environment, frazil

from frazil import __version__

SECRETS = {"FRAZIL_DATABASE_URL": "postgresql://me:hunter2@db.example/x", "FRAZIL_ENCRYPTION_KEY": "ab" * 32}


def test_help_names_the_commands(command: Command) -> None:
    for flag in ("--help", "-h"):
        shown = command(flag)
        assert shown.returncode == 0
        assert "serve" in shown.stdout
        assert "migrate" in shown.stdout
    assert __version__ in command("--version").stdout


def test_help_of_serve_names_every_setting_and_its_default(command: Command) -> None:
    shown = command("serve", "--help").stdout
    for flag in (
        "--host",
        "--port",
        "--data-dir",
        "--database-url",
        "--config",
        "--show-config",
        "--log-level",
    ):
        assert flag in shown
    assert "8181" in shown
    assert "127.0.0.1" in shown


def test_a_standard_input_that_is_closed_is_an_empty_one() -> None:
    failed = subprocess.run(
        ["sh", "-c", 'exec "$0" -m frazil.cli hot create - <&-', sys.executable],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert failed.returncode == 1
    assert "creates no table" in failed.stderr


def test_what_an_error_quotes_does_not_steer_the_terminal(command: Command) -> None:
    failed = command("hot", "create", "\x1b]0;title\x07.sql")
    assert failed.returncode == 1
    assert "cannot read ?]0;title?.sql" in failed.stderr


def test_a_dry_run_of_a_rebuild_abandons_none(command: Command, tmp_path: Path) -> None:
    failed = command("rebuild", str(tmp_path / "none.yaml"), "--dry-run", "--abandon")
    assert failed.returncode == 2
    assert "not both" in failed.stderr


def test_unknown_commands_and_options(command: Command) -> None:
    for arguments in (("surf",), ("serve", "--prot", "5"), ("serve", "--port", "x")):
        failed = command(*arguments)
        assert failed.returncode == 2
        assert "Traceback" not in failed.stderr
        assert failed.stderr


def test_show_config_says_where_values_came_from_and_masks_secrets(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "frazil.toml"
    file.write_text('log-level = "debug"\nport = 7000\n')
    shown = command("serve", "--show-config", "--config", str(file), "--port", "7001", environment=SECRETS)
    assert shown.returncode == 0, shown.stderr
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "7001" in lines["port"]
    assert "flag --port" in lines["port"]
    assert f"file {file}" in lines["log-level"]
    assert "environment FRAZIL_DATABASE_URL" in lines["database-url"]
    assert "postgresql://me:***@db.example/x" in lines["database-url"]
    assert "default" in lines["host"]
    assert "***" in lines["encryption-key"]
    for secret in ("hunter2", "abab"):
        assert secret not in shown.stdout + shown.stderr


def test_the_config_file_can_come_from_the_environment(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "frazil.toml"
    file.write_text("port = 7002\n")
    assert "7002" in command("serve", "--show-config", environment={"FRAZIL_CONFIG": str(file)}).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 5", "'prot'"),
        ("port = 'x'", "whole number"),
        ("port = 99999", "65535"),
        ("log-level = 'loud'", "'loud'"),
        ("encryption-key = 'short'", "64 hex digits"),
        ("metadata-cache-mb = 0", "metadata-cache-mb"),
        ("= 5", "cannot be read"),
    ],
)
def test_a_wrong_config_is_one_line(command: Command, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "frazil.toml"
    file.write_text(text)
    failed = command("serve", "--config", str(file), "--data-dir", str(tmp_path / "data"))
    assert failed.returncode == 1, failed.stderr
    assert words in failed.stderr
    assert "hunter2" not in failed.stderr
    assert failed.stderr.startswith("frazil: ")
    assert "Traceback" not in failed.stderr


def test_a_config_file_that_is_not_there(command: Command, tmp_path: Path) -> None:
    failed = command("serve", "--config", str(tmp_path / "none.toml"))
    assert failed.returncode == 1
    assert "none.toml does not exist" in failed.stderr


def test_a_taken_port_is_said_before_anything_is_made(command: Command, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        failed = frazil("serve", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert failed.returncode == 1
    assert f"127.0.0.1:{port}" in failed.stderr
    assert "--port" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "data" / "catalog.db").exists()


def test_a_host_that_is_not_ours(tmp_path: Path) -> None:
    failed = frazil("serve", "--host", "192.0.2.1", "--port", "0", "--data-dir", str(tmp_path))
    assert failed.returncode == 1
    assert "192.0.2.1" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_host_that_is_no_address(tmp_path: Path) -> None:
    failed = frazil("serve", "--host", "no such host!", "--port", "0", "--data-dir", str(tmp_path))
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


def test_a_database_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    url = {"FRAZIL_DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:9/none"}
    for arguments in (("serve", "--port", "0"), ("migrate",)):
        failed = frazil(*arguments, "--data-dir", str(tmp_path), environment=url)
        assert failed.returncode == 1
        assert "cannot connect to PostgreSQL" in failed.stderr
        assert "hunter2" not in failed.stderr + failed.stdout
        assert "Traceback" not in failed.stderr


def test_a_database_of_no_known_kind(tmp_path: Path) -> None:
    url = {"FRAZIL_DATABASE_URL": "mysql://me:hunter2@x/y"}
    failed = frazil("serve", "--port", "0", "--data-dir", str(tmp_path), environment=url)
    assert failed.returncode == 1
    assert "'mysql' is not known" in failed.stderr
    assert "hunter2" not in failed.stderr


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    failed = frazil("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert str(tmp_path / "file") in failed.stderr


def test_no_heavy_library_is_loaded_for_help() -> None:
    """`frazil --help` answers at once; what a command needs is imported when it runs."""
    started = time.monotonic()
    heavy = ("uvicorn", "obstore", "pyspark", "pyiceberg", "asyncpg")
    code = f"import sys, frazil.cli.main; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"import took {time.monotonic() - started:.2f} s")
    assert loaded.stdout.strip() == "[]"
