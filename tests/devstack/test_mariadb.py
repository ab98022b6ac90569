from __future__ import annotations

import stat
from pathlib import Path

import pytest

from frazil.core.errors import ServiceError
from frazil.devstack.mariadb import MariaDb

pytestmark = pytest.mark.services


def test_it_writes_whole_rows_with_their_names_to_the_binlog(mariadb: MariaDb) -> None:
    asked = "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@gtid_strict_mode"
    assert mariadb.execute(asked).split("\t") == ["1", "ROW", "FULL", "FULL", "1"]


def test_a_crash_loses_nothing_committed() -> None:
    with MariaDb(fsync=False) as server:
        server.create_database("kept")
        server.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (7)", "kept")
        position, pid, port = server.execute("SELECT @@gtid_binlog_pos"), server.pid, server.port
        server.restart(crash=True)
        assert server.pid != pid
        assert server.port == port
        assert server.execute("SELECT id FROM t", "kept") == "7"
        assert server.execute("SELECT @@gtid_binlog_pos") == position
        server.restart()
        assert server.execute("SELECT id FROM t", "kept") == "7"
        directory = server.directory
    assert not directory.exists()


def test_the_password_is_private_and_on_no_command_line(mariadb: MariaDb) -> None:
    assert stat.S_IMODE((mariadb.directory / "password").stat().st_mode) == 0o600
    assert mariadb.password not in Path(f"/proc/{mariadb.pid}/cmdline").read_text()


def test_nobody_enters_without_a_password(mariadb: MariaDb) -> None:
    accounts = mariadb.execute(
        "SELECT user, JSON_VALUE(priv, '$.authentication_string') FROM mysql.global_priv "
        "WHERE NOT COALESCE(JSON_VALUE(priv, '$.account_locked'), FALSE)"
    )
    assert all(len(line.split("\t")[1]) == 41 for line in accounts.splitlines())
    assert "frazil" in accounts


def test_a_replication_user_reads_but_does_not_write(mariadb: MariaDb) -> None:
    assert mariadb.create_replication_user("reader")
    grants = mariadb.execute("SHOW GRANTS FOR reader@'127.0.0.1'")
    assert "REPLICATION SLAVE" in grants
    assert "INSERT" not in grants
    assert "ALL PRIVILEGES" not in grants


def test_what_is_refused_is_explained_without_the_statement(mariadb: MariaDb) -> None:
    with pytest.raises(ServiceError, match="ERROR 1146") as caught:
        mariadb.execute("SELECT 'secret' FROM mysql.nowhere")
    assert "secret" not in str(caught.value)
    with pytest.raises(ServiceError, match="no plain name"):
        mariadb.create_database("x`; DROP DATABASE mysql; --")
