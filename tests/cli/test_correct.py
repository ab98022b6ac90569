"""What `frazil correct` says before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

WHERE = ("correct", "shop.orders", "--where", "id = 1")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("frazil.lake.session.spark_session", refused)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--where", "id = 1"),
        ("--sql", "SELECT 1"),
        ("--where", "id = 1", "--offsets", "orders=0:0-2"),
        ("--where", "id = 1", "--sql", "SELECT 1", "--offsets", "orders=0:0-2"),
    ],
)
def test_a_range_is_said_in_one_way(command: Command, options: tuple[str, ...]) -> None:
    failed = command("correct", "shop.orders", *options)
    assert failed.returncode == 2
    assert "--where and --sql, or --offsets" in failed.stderr


def test_a_query_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    binary, folder = tmp_path / "binary", tmp_path / "folder.sql"
    binary.write_bytes(b"\xff\xfe\x00")
    folder.mkdir()
    missing = tmp_path / "no.sql"
    for file, said in ((missing, "No such file"), (folder, "Is a directory"), (binary, "not UTF-8")):
        failed = command(*WHERE, "--sql", str(file))
        assert failed.returncode == 1
        assert said in failed.stderr


def test_a_range_of_a_log_that_is_none(command: Command) -> None:
    failed = command("correct", "shop.orders", "--offsets", "orders")
    assert failed.returncode == 1
    assert "is no range of a log" in failed.stderr


@pytest.mark.parametrize("query", ["SELECT * FROM shop.orders", "SELECT id FROM other.sql"])
def test_what_is_right_goes_on_to_a_catalog_that_is_away(command: Command, query: str) -> None:
    for options in ((*WHERE, "--sql", query), ("correct", "shop.orders", "--offsets", "orders=0:0-2")):
        failed = command(*options, "--uri", "http://127.0.0.1:9")
        assert failed.returncode == 1
        assert "Is it up, and is this its address?" in failed.stderr


def test_a_branch_is_not_dropped_unasked(command: Command) -> None:
    asked = command("correct", "drop", "shop.orders", "1a2b3c4d")
    assert asked.returncode == 2
    assert "Drop the correction 1a2b3c4d of shop.orders? Say --yes if you mean it" in asked.stderr
    failed = command("correct", "drop", "shop.orders", "1a2b3c4d", "--yes", "--uri", "http://127.0.0.1:9")
    assert failed.returncode == 1
    assert "Is it up, and is this its address?" in failed.stderr


def test_the_help_of_a_range_names_the_table(command: Command) -> None:
    shown = command("correct", "shop.orders", "--help")
    assert shown.stdout.startswith("Usage: frazil correct TABLE [OPTIONS]\n")
    failed = command("correct", "shop.orders", "--unknown")
    assert failed.returncode == 2
    assert "Try 'frazil correct TABLE --help'" in failed.stderr
