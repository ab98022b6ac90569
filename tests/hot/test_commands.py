"""`frazil hot` and `frazil put`, as somebody types them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from tests.hot.test_ddl import GUIDE

from frazil.cli.main import cli
from frazil.core.errors import FrazilError
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

_numbers = itertools.count(1)
Run = Callable[..., Result]


@pytest.fixture
def namespace() -> str:
    return f"typed{next(_numbers)}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frazil_sqlite: FrazilServer, kafka: Kafka) -> Run:
    """A command in a folder that has a hot.yaml."""
    monkeypatch.chdir(tmp_path)
    brokers = f"kafka: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}"
    (tmp_path / "hot.yaml").write_text(f"{brokers}\ncatalog: {{uri: '{frazil_sqlite.uri}'}}\n")

    def invoke(*arguments: str, input: str | None = None) -> Result:  # noqa: A002 - click's own word
        return CliRunner().invoke(cli, arguments, input=input, catch_exceptions=False)

    return invoke


def records(run: Run, table: str) -> int:
    return int(json.loads(run("hot", "show", table, "--json").stdout)["records"])


def test_from_the_guide_to_rows(run: Run, namespace: str, tmp_path: Path, kafka: Kafka) -> None:
    (tmp_path / "orders.sql").write_text(GUIDE)
    table = f"{namespace}.orders"
    made = run("hot", "create", "orders.sql", "--namespace", namespace)
    assert made.stdout == f"created hot table {table} (topic {table}, 1 partition)\n"
    assert made.stderr.endswith("where the configuration says: USE CATALOG fluss_catalog\n")
    again = run("hot", "create", "orders.sql", "--namespace", namespace, "--if-not-exists")
    assert again.stdout == f"hot table {table} is there already (topic {table}, 1 partition)\n"
    with pytest.raises(FrazilError, match=rf"orders.sql:3: the hot table {table} exists already"):
        run("hot", "create", "orders.sql", "--namespace", namespace)
    listed = next(line for line in run("hot", "list").stdout.splitlines() if line.startswith(table))
    assert listed.split() == [table, "order_id", "1", "on", "30s"]
    shown = run("hot", "show", table).stdout
    assert "customer_id  int not null" in shown
    assert f"{table} at {kafka.bootstrap_servers}" in shown
    rows = '{"order_id": 1, "customer_id": 7, "total_price": 12.5}\n\n{"order_id": 2, "customer_id": 7}'
    assert run("put", table, "-", input=rows).stdout == f"put 2 rows into {table}\n"
    gone = run("put", table, "-", "--delete", "--json", input='{"order_id": 2}\n')
    assert json.loads(gone.stdout) == {"table": table, "topic": table, "deleted": 1}
    assert records(run, table) == 3
    kept = run("hot", "drop", table, "--yes")
    assert kept.stdout == f"dropped hot table {table}, its topic {table} stays\n"
    with pytest.raises(FrazilError, match=r"about 3 records\. Say --adopt"):
        run("hot", "create", "orders.sql", "--namespace", namespace)
    assert "which was there" in run("hot", "create", "orders.sql", "-n", namespace, "--adopt").stdout
    assert run("hot", "drop", table, "--yes", "--topic").stdout.endswith(f"and its topic {table}\n")


def test_tables_in_yaml(run: Run, namespace: str, tmp_path: Path) -> None:
    with (tmp_path / "hot.yaml").open("a") as file:
        file.write(
            f"tables:\n  {namespace}.a: {{columns: {{id: long, name: string}}, key: id, buckets: 2}}\n"
            f"  {namespace}.b: {{columns: {{n: int}}, enabled: false}}\n"
        )
    made = json.loads(run("hot", "create", "hot.yaml", "--json").stdout)
    assert [(one["name"], one["key"], one["buckets"], one["enabled"]) for one in made] == [
        ("a", ["id"], 2, True),
        ("b", [], 1, False),
    ]
    (tmp_path / "rows.csv").write_text("id,name\n1,x\n2,\n")
    pq.write_table(pa.table({"id": [3, 4], "name": ["y", None]}), tmp_path / "rows.parquet")
    assert run("put", f"{namespace}.a", "rows.csv").stdout.startswith("put 2 rows")
    assert run("put", f"{namespace}.a", "rows.parquet").stdout.startswith("put 2 rows")
    assert records(run, f"{namespace}.a") == 4


def test_what_is_wrong_is_said(run: Run, namespace: str, tmp_path: Path) -> None:
    run("hot", "create", "-", input=f"CREATE TABLE {namespace}.t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    table = f"{namespace}.t"
    with pytest.raises(FrazilError, match=r"line 2 does not fit .*, column 'ID': there is no such column"):
        run("put", table, "-", input='{"id": 1}\n{"ID": 2}\n')
    assert records(run, table) == 0
    (tmp_path / "rows.csv").write_text("id\n1\nx\n")
    with pytest.raises(FrazilError, match=r"cannot read rows\.csv: .*Row #3"):
        run("put", table, "rows.csv")
    (tmp_path / "rows.parquet").write_text("no")
    with pytest.raises(FrazilError, match=r"cannot read rows\.parquet"):
        run("put", table, "rows.parquet")
    with pytest.raises(FrazilError, match="cannot read nothing: No such file"):
        run("put", table, "nothing")
    with pytest.raises(FrazilError, match="frazil table list"):
        run("put", f"{namespace}.u", "-", input="")
    with pytest.raises(FrazilError, match="standard input:1:1: 'SELECT' begins no statement"):
        run("hot", "create", "-", input="SELECT 1")
    with pytest.raises(FrazilError, match="creates no table"):
        run("hot", "create", "-", input="-- nothing")
    with pytest.raises(FrazilError, match="has no 'tables'"):
        run("hot", "create", "hot.yaml")
    script = f"CREATE TABLE {namespace}.v (id INT); CREATE TABLE {table} (id INT);"
    with pytest.raises(FrazilError, match=r"standard input:1: the hot table .*1 tables before it"):
        run("hot", "create", "-", input=script)
    with pytest.raises(FrazilError, match=r"cannot read other\.yaml"):
        run("hot", "list", "--config", "other.yaml")


def test_what_was_sent_before_a_bad_line_is_told(run: Run, namespace: str) -> None:
    """Else somebody puts it again, and a table without a key has it twice."""
    run("hot", "create", "-", input=f"CREATE TABLE {namespace}.log (n INT)")
    lines = '{"n": 1}\n{"n": 2}\n\n \n{"n": 3}\n\n{"n": "x"}\n{"n": 4}'
    with pytest.raises(FrazilError, match=r"line 7 (\(|does not fit).*3 rows before that were sent"):
        run("put", f"{namespace}.log", "-", input=lines)
    assert records(run, f"{namespace}.log") == 3


def test_values_of_several_lines(run: Run, namespace: str, tmp_path: Path) -> None:
    """Wherever a file is cut into parts."""
    run("hot", "create", "-", input=f"CREATE TABLE {namespace}.texts (n INT, word STRING)")
    text = "\n".join(["line"] * 400)
    (tmp_path / "rows.csv").write_text("n,word\n" + "".join(f'{n},"{text}"\n' for n in range(5000)))
    assert run("put", f"{namespace}.texts", "rows.csv").stdout.startswith("put 5000 rows")


def test_a_file_of_tables_that_says_where_they_are(run: Run, namespace: str, tmp_path: Path) -> None:
    """It may not be that the other file counts, and nobody says so."""
    tables = f"tables: {{{namespace}.there: {{columns: {{n: int}}}}}}"
    (tmp_path / "prod.yaml").write_text((tmp_path / "hot.yaml").read_text() + tables)
    with pytest.raises(FrazilError, match=r"give --config prod\.yaml, .* and not hot\.yaml"):
        run("hot", "create", "prod.yaml")
    (tmp_path / "hot.yaml").unlink()
    with pytest.raises(FrazilError, match=r"where Kafka is|give --config prod\.yaml"):
        run("hot", "create", "prod.yaml")
    assert run("hot", "create", "prod.yaml", "--config", "prod.yaml").stdout.startswith("created hot table")
    (tmp_path / "fluss.yaml").write_text("datalake.format: iceberg\n" + tables)
    with pytest.raises(FrazilError, match=r"take .* and 'datalake' out of it"):
        run("hot", "create", "fluss.yaml", "--config", "prod.yaml")
    (tmp_path / "tables.yaml").write_text(tables)
    again = run("hot", "create", "tables.yaml", "--config", "prod.yaml", "--if-not-exists")
    assert "is there already" in again.stdout


def test_options_and_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frazil_sqlite: FrazilServer, kafka: Kafka
) -> None:
    (tmp_path / "hot.yaml").unlink()
    with pytest.raises(FrazilError, match="it is not known where Kafka is"):
        run("hot", "list", "--uri", frazil_sqlite.uri)
    assert (
        run("hot", "list", "--uri", frazil_sqlite.catalog_uri, "--kafka", kafka.bootstrap_servers).exit_code
        == 0
    )
    monkeypatch.setenv("FRAZIL_URI", frazil_sqlite.uri)
    monkeypatch.setenv("FRAZIL_KAFKA", kafka.bootstrap_servers)
    assert run("hot", "list", "--json").exit_code == 0
