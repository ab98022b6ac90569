"""The order of the evidence, and what is not decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lineage.flink.resolving import K_ORDERS, Snapshots, World, read, table, write
from tests.lineage.standin import Reply, StandIn, visible

from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.gateway import Gateway
from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs
from frazil.lineage.model import Resolution, Unresolved


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "tables.sql"
    file.write_text(
        """
        CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = 'jdbc:postgresql://h:5432');
        CREATE TEMPORARY TABLE k_orders (id BIGINT, s AS id + 1)
          WITH ('connector' = 'kafka', 'topic' = 'orders');
        CREATE TEMPORARY TABLE k_out (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'out');
        CREATE TABLE other.db.k_two (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'one');
        CREATE TABLE other.db2.k_two (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'two');
        CREATE TABLE other.db.`with.dots` (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'dots');
        CREATE TABLE k_many (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a;b');
        """
    )
    return str(file)


def test_a_script_tells_temporary_tables_and_catalogs(script: str) -> None:
    world = World(ddl_file=script)
    assert world.one(read("k_orders", *K_ORDERS)) == "kafka:orders by ddl"
    assert world.one(write("k_out")) == "kafka:out by ddl"
    assert world.one(read("users", "pg", "shop", "public.users")) == "postgres:shop.public.users by ddl"


def test_the_user_comes_first(script: str) -> None:
    given = {"default_catalog": {"platform": "hive", "platform_instance": "eu"}}
    world = World(ddl_file=script, catalog_platform_map=given)
    (found,) = world.resolve(read("k_orders", *K_ORDERS))
    assert isinstance(found, Resolution)
    assert str(found.dataset) == "hive:default_database.k_orders"
    assert found.dataset.platform_instance == "eu"


def test_a_parameter_of_the_job_tells_a_dataset() -> None:
    world = World()
    world.parameters = {"lineage.my source": "kinesis:clicks", "lineage.other": "nonsense"}
    assert world.one(read("my source", operator="Source: my source")) == "kinesis:clicks by parameter"
    assert world.one(read("other", operator="Source: other")).startswith("?")


def test_instances_by_catalog_then_by_platform(script: str) -> None:
    world = World(ddl_file=script, platform_instance_map={"kafka": "prod"})
    (found,) = world.resolve(read("k_orders", *K_ORDERS))
    assert isinstance(found, Resolution)
    assert found.dataset.platform_instance == "prod"
    world = World(
        ddl_file=script,
        platform_instance_map={"kafka": "prod"},
        catalog_platform_map={"default_catalog": {"platform_instance": "mine"}},
    )
    (found,) = world.resolve(read("k_orders", *K_ORDERS))
    assert isinstance(found, Resolution)
    assert found.dataset.platform_instance == "mine"


def test_two_tables_of_a_name_are_not_chosen_from(script: str) -> None:
    world = World(ddl_file=script)
    assert world.one(write("k_two")) == "? several tables have that name (other: one, other: two)"


@pytest.mark.parametrize(
    ("operator", "known"),
    [
        ("k_out[11]: Writer", True),
        ("Sink: k_out[11]", True),
        ("Writer : k_out -> Global Committer : k_out", True),
        ("k_out: Writer -> k_out: Committer", False),
        ("Sink: k_out", False),
        ("Source: k_out", False),
        ("Source: k_out[3]", True),
    ],
)
def test_what_a_program_calls_its_operators_is_no_table(script: str, operator: str, known: bool) -> None:
    endpoint = (read if operator.startswith("Source") else write)("k_out", operator=operator)
    assert (World(ddl_file=script).one(endpoint) == "kafka:out by ddl") is known


def test_the_name_that_flink_gave_the_job_tells_which_of_two(script: str) -> None:
    world = World(ddl_file=script)
    world.job_name = "insert-into_other.db2.k_two"
    assert world.one(write("k_two")) == "kafka:two by ddl"
    world.job_name = "insert-into_unseen.db.k_out"
    (found,) = world.resolve(write("k_out"))
    assert isinstance(found, Unresolved)
    assert found.where == "writes unseen.db.k_out"


def test_what_the_user_said_of_a_catalog_counts_for_the_jobs_name() -> None:
    world = World(catalog_platform_map={"kc": {"platform": "kafka"}, "ice": {"platform": "iceberg"}})
    world.job_name = "insert-into_kc.kdb.k_out"
    assert world.one(write("k_out")) == "kafka:kdb.k_out by config"
    world.job_name = "insert-into_ice.db.alerts"
    assert world.one(write("alerts")).startswith("?"), "Iceberg's sinks print otherwise"
    world.parameters = {"lineage.ice.db.alerts": "kafka:alerts"}
    assert world.one(write("alerts")) == "kafka:alerts by parameter"


def test_several_topics_are_not_one(script: str) -> None:
    world = World(ddl_file=script)
    assert world.one(read("k_many", *K_ORDERS[:2], "k_many")) == "? it has several (a;b)"


def test_options_of_a_query_come_before_those_of_the_table(script: str) -> None:
    world = World(ddl_file=script)
    assert world.one(read("k_orders", *K_ORDERS, options={"topic": "other"})) == "kafka:other by plan"
    assert world.one(read("k_orders", *K_ORDERS, options={"topic": "a;b"})) == "? it has several (a;b)"
    assert world.one(read("k_orders", *K_ORDERS, options={"scan.x": "y"})) == "kafka:orders by ddl"
    many = read("k_many", *K_ORDERS[:2], "k_many", options={"topic": "a"})
    assert world.one(many) == "kafka:a by plan"


def test_a_table_that_the_query_does_not_fit_is_not_the_one(script: str) -> None:
    world = World(ddl_file=script)
    assert world.one(write("k_out", columns=("id",))) == "kafka:out by ddl"
    assert world.one(write("k_out", columns=("id", "more"))).startswith("?")


def test_reads_may_name_computed_columns_and_writes_may_not(script: str) -> None:
    world = World(ddl_file=script)
    found, out = world.resolve(read("k_orders", *K_ORDERS), write("k_orders"))
    assert isinstance(found, Resolution)
    assert isinstance(out, Resolution)
    assert (found.columns, out.columns) == (("id", "s"), ("id",))


def test_metadata_that_is_declared_first_is_written_last(tmp_path: Path) -> None:
    script = tmp_path / "tables.sql"
    script.write_text(
        "CREATE TABLE k_out (event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', id BIGINT, amount INT)"
        " WITH ('connector' = 'kafka', 'topic' = 'out');"
    )
    world = World(ddl_file=str(script))
    columns = ("id", "amount", "timestamp")
    source, out = world.resolve(read("k_out", *K_ORDERS[:2], "k_out"), write("k_out", columns=columns))
    assert isinstance(source, Resolution)
    assert isinstance(out, Resolution)
    assert source.columns == ("event_time", "id", "amount")
    assert out.columns == ("id", "amount", "event_time")


def test_snapshots_of_the_job_tell_its_sinks() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("db.orders"), table("db.other")], "job2": [table("x.orders")]})
    assert world.one(write("orders", operator="orders: Writer")) == "iceberg:db.orders by snapshot"
    full = "cat.db.orders: Writer"
    assert world.one(write("orders", "cat", "db", "orders", operator=full)) == "iceberg:db.orders by snapshot"
    full = "cat.elsewhere.orders: Writer"
    assert world.one(write("orders", "cat", "elsewhere", "orders", operator=full)).startswith("?")
    assert world.one(read("orders", "cat", "db", "orders")).startswith("?"), "it only says what was written"


def test_snapshots_from_before_the_job_began_are_not_asked_for() -> None:
    world = World()
    world.started, world.iceberg = 1_700, Snapshots({"job1": [table("db.orders")]})
    world.resolve(write("orders", operator="orders: Writer"), write("B", operator="B: Writer"))
    assert set(world.iceberg.asked_since) == {1_700}


def test_two_written_tables_of_a_name_are_ambiguous() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("a.orders"), table("b.orders")]})
    assert "several tables have that name" in world.one(write("orders", operator="orders: Writer"))


@pytest.mark.parametrize(
    "operator",
    [
        "orders[11]: Writer -> orders[11]: Committer",
        "Sink: orders[11]",
        "Sink(table=[c.d.orders], fields=[a]): Writer",
    ],
)
def test_what_a_job_wrote_is_no_sink_that_the_planner_named(operator: str) -> None:
    """So print Kafka's sinks and all others; Iceberg's do in none of the releases."""
    world = World()
    world.iceberg = Snapshots({"job1": [table("db.orders", "a")]})
    assert world.one(write("orders", operator=operator, columns=("a",))).startswith("?")


def test_a_table_in_a_nested_namespace_and_one_of_its_last_name() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("a.b.orders", "x", "added since")]})
    nested = write(
        "ice.a.b.orders", operator="IcebergSink ice.a.b.orders: Writer", columns=("x",), connector="iceberg"
    )
    for other in ("orders[11]: Writer", "orders: Writer"):
        first, second = world.resolve(nested, write("orders", operator=other, columns=("x", "y")))
        assert isinstance(first, Resolution)
        assert str(first.dataset) == "iceberg:a.b.orders"
        assert isinstance(second, Unresolved)


@pytest.mark.parametrize("name", ["k_out[11]: Writer", "StreamingFileWriter"])
def test_a_table_that_another_sink_is_by_another_name_is_not_left_over(name: str) -> None:
    world = World(catalog_platform_map={"ice": {"platform": "hive"}})
    world.iceberg = Snapshots({"job1": [table("db.orders")]})
    first, second = world.resolve(
        write("orders", "ice", "db", "orders", operator="ice.db.orders: Writer", connector="iceberg"),
        write(name.partition("[")[0], operator=name),
    )
    assert isinstance(first, Resolution)
    assert str(first.dataset) == "hive:db.orders"
    assert isinstance(second, Unresolved)


@pytest.mark.parametrize("by", ["parameter", "config"])
def test_a_table_that_the_user_called_something_else_is_not_left_over(by: str) -> None:
    named = {"ice": {"platform": "hive"}} if by == "config" else {}
    world = World(catalog_platform_map=named)
    world.parameters = {"lineage.orders": "hive:db.orders"} if by == "parameter" else {}
    world.iceberg = Snapshots({"job1": [table("db.orders")]})
    orders = write("orders", "ice", "db", "orders", operator="IcebergSink ice.db.orders: Writer")
    first, second = world.resolve(orders, write("alerts", operator="Sink: alerts"))
    assert isinstance(first, Resolution)
    assert str(first.dataset) == "hive:db.orders"
    assert isinstance(second, Unresolved)


def test_a_catalog_with_a_base_namespace(tmp_path: Path) -> None:
    script = tmp_path / "catalogs.sql"
    script.write_text("CREATE CATALOG ice WITH ('type'='iceberg', 'base-namespace'='prod.eu');")
    world = World(ddl_file=str(script))
    assert world.one(read("orders", "ice", "db", "orders")) == "iceberg:prod.eu.db.orders by ddl"
    world.job_name = "insert-into_ice.db.orders"
    name = "ice.prod.eu.db.orders"
    sink = write(name, operator=f"IcebergSink {name}: Writer", connector="iceberg")
    assert world.one(sink) == "iceberg:prod.eu.db.orders by ddl"
    assert world.one(write(name, operator=f"Sink(table=[{name}], fields=[a])")).startswith("?")


def test_the_one_sink_that_is_left_is_the_one_table_that_is_left(script: str) -> None:
    world = World(ddl_file=script)
    world.iceberg = Snapshots({"job1": [table("db.orders", "a", "b")]})
    kafka, sink = world.resolve(write("k_out"), write("Sink", operator="Sink: Writer", columns=("x", "y")))
    assert isinstance(sink, Resolution)
    assert str(sink.dataset) == "iceberg:db.orders"
    assert isinstance(kafka, Resolution)


def test_two_sinks_that_are_left_stay_unresolved() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("db.orders")]})
    found = world.resolve(write("A", operator="A: Writer"), write("B", operator="B: Writer"))
    assert all(isinstance(one, Unresolved) for one in found)


def test_a_table_that_is_taken_is_not_given_twice() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("db.orders")]})
    orders = write("orders", operator="orders: Writer")
    first, second = world.resolve(orders, write("B", operator="B: Writer"))
    assert isinstance(first, Resolution)
    assert isinstance(second, Unresolved)


def test_the_plan_names_iceberg_and_other_jobs_learn_from_it() -> None:
    world = World()
    assert world.one(read("orders", "ice", "db", "orders")).startswith("?")
    sink, source, second, other = world.resolve(
        write(
            "orders", "ice", "db", "orders", operator="IcebergSink ice.db.orders: Writer", connector="iceberg"
        ),
        read("orders", "ice", "db", "orders"),
        write("large", "ice", "db", "large", operator="ice.db.large: Writer"),
        read("incoming", "ice", "db", "incoming"),
    )
    assert isinstance(sink, Resolution)
    assert isinstance(source, Resolution)
    assert str(source.dataset) == "iceberg:db.orders"
    assert isinstance(second, Resolution)
    assert str(second.dataset) == "iceberg:db.large"
    assert isinstance(other, Unresolved), "it may be a temporary table of any kind"


def test_a_temporary_table_in_a_catalog_where_iceberg_was_seen(tmp_path: Path) -> None:
    sink = write("orders", "ice", "db", "orders", operator="ice.db.orders: Writer", connector="iceberg")
    alerts = write("alerts", "ice", "db", "alerts", operator="Sink(table=[ice.db.alerts], fields=[a])")
    _, found = World().resolve(sink, alerts)
    assert isinstance(found, Unresolved)
    with StandIn(statements=visible()) as standin:
        world = World(connection={"rest_api_url": "http://h", "sql_gateway_url": standin.url})
        gateway = Gateway(world.config.connection)
        world.gateway = GatewayCatalogs(gateway, world.failed.append)
        _, found = world.resolve(sink, write("gone", "ice", "db", "gone", operator="ice.db.gone: Writer"))
        assert isinstance(found, Unresolved)
        assert "finds no such table" in found.reason
        hiding = write("orders", "ice", "db", "orders", operator="Sink(table=[ice.db.orders], fields=[a])")
        assert "a temporary table" in world.one(hiding)
        script = tmp_path / "jobs.sql"
        script.write_text("CREATE TABLE ice.db.orders (a INT) WITH ('connector'='kafka', 'topic'='t');")
        world.config = flink_config({"connection": {"rest_api_url": "http://h"}, "ddl_file": str(script)})
        assert world.one(hiding) == "kafka:t by ddl"
        gateway.close()


def test_a_table_of_the_same_name_is_another_sink_of_the_job() -> None:
    world = World()
    world.iceberg = Snapshots({"job1": [table("db.orders", "a", "b")]})
    kafka = write("orders", operator="orders: Writer", columns=("a", "b"))
    full = write("orders in full", "ice", "db", "orders", operator="ice.db.orders: Writer")
    first, second = world.resolve(kafka, full)
    assert isinstance(first, Unresolved)
    assert isinstance(second, Resolution)


def test_a_full_name_with_dots_in_it(script: str) -> None:
    world = World(ddl_file=script)
    sink = "Sink(table=[other.db.with.dots], fields=[id])"
    assert world.one(write("other.db.with.dots", operator=sink)) == "kafka:dots by ddl"
    assert world.one(write("other.db.with.others", operator=sink)).startswith("?")


def test_a_temporary_table_in_a_catalog_of_another_kind(tmp_path: Path) -> None:
    script = tmp_path / "jobs.sql"
    script.write_text(
        "CREATE CATALOG ice WITH ('type'='iceberg');"
        "CREATE TEMPORARY TABLE ice.db.incoming (a INT) WITH ('connector'='kafka', 'topic'='in');"
    )
    incoming = read("incoming", "ice", "db", "incoming")
    with StandIn(statements=visible()) as standin:
        connection = {"rest_api_url": "http://h", "sql_gateway_url": standin.url}
        world = World(connection=connection)
        gateway = Gateway(world.config.connection)
        world.gateway = GatewayCatalogs(gateway, world.failed.append)
        assert "or is a temporary one of the job's own session" in world.one(incoming)
        world = World(connection=connection, ddl_file=str(script))
        world.gateway = GatewayCatalogs(gateway, world.failed.append)
        assert world.one(incoming) == "kafka:in by ddl"
        gateway.close()


def test_a_kafka_table_that_is_called_what_an_iceberg_table_is_called() -> None:
    """The SQL planner named the sink, which Iceberg's connector does itself."""
    with StandIn(statements=visible()) as standin:
        world = World(connection={"rest_api_url": "http://h", "sql_gateway_url": standin.url})
        gateway = Gateway(world.config.connection)
        world.gateway = GatewayCatalogs(gateway, world.failed.append)
        columns = ("order_id", "customer", "amount", "ts")
        assert world.one(write("orders", columns=columns)).startswith("?")
        gateway.close()


def test_patterns_of_the_user_come_before_ours() -> None:
    own = {"pattern": "KafkaSource-(?P<name>x.*)", "platform": "redpanda", "direction": "read"}
    world = World(operator_patterns=[own])
    assert world.one(read("KafkaSource-x1", operator="Source: KafkaSource-x1")) == "redpanda:x1 by pattern"
    assert world.one(read("KafkaSource-y1", operator="Source: KafkaSource-y1")) == "kafka:y1 by pattern"
    assert (
        world.one(write("KafkaSink-a.b.c", "KafkaSink-a", "b", "c", operator="KafkaSink-a.b.c: Writer"))
        == "kafka:a.b.c by pattern"
    )


def test_the_only_table_of_a_name_is_not_known_while_a_catalog_is_away() -> None:
    kafka = "CREATE TABLE `{0}`.`d`.`t` (x INT) WITH ('connector'='kafka', 'topic'='in-{0}')"
    statements: dict[str, Any] = {
        "SHOW CATALOGS": [["a"], ["b"]],
        **{f"SHOW DATABASES IN `{name}`": [["d"]] for name in "ab"},
        **{f"SHOW TABLES FROM `{name}`.`d`": [["t"]] for name in "ab"},
        **{f"SHOW CREATE TABLE `{name}`.`d`.`t`": [[kafka.format(name)]] for name in "ab"},
        **{f"DESCRIBE CATALOG EXTENDED `{name}`": [["type", "generic_in_memory"]] for name in "ab"},
    }
    lost = statements | {"SHOW TABLES FROM `b`.`d`": None}
    for given, told in ((statements, "several tables"), (lost, "not all catalogs could be asked")):
        seen = {statement: rows for statement, rows in given.items() if rows is not None}
        with StandIn(statements=seen) as standin:
            world = World(connection={"rest_api_url": "http://h", "sql_gateway_url": standin.url})
            gateway = Gateway(world.config.connection)
            world.gateway = GatewayCatalogs(gateway, world.failed.append)
            assert told in world.one(write("t", columns=("x",)))
            assert world.one(read("t", "a", "d", "t")) == "kafka:in-a by gateway"
            assert bool(world.failed) is (given is lost)
            gateway.close()


@pytest.mark.parametrize(
    ("cause", "answer"),
    [
        ("ValidationException: … Table with identifier `pg`.`d`.`t` does not exist.", True),
        ("TableNotExistException: Table (or view) d.t does not exist in Catalog pg.", True),
        ("TableException: SHOW CREATE TABLE is only supported for tables, but `t` is a view.", True),
        ('org.postgresql.util.PSQLException: FATAL: role "bob" does not exist', False),
        ("java.net.UnknownHostException: pg: host not found", False),
    ],
)
def test_a_catalog_that_cannot_ask_its_own_service_has_not_said_that_there_is_no_table(
    cause: str, answer: bool
) -> None:
    refusal = {"errors": ["Internal server error.", f"…SqlExecutionException: no\nCaused by: {cause}"]}
    faults = [("operation-1/result/", [Reply(500, json.dumps(refusal).encode())])]
    with StandIn(statements={"SHOW CATALOGS": [["pg"]]}, faults=faults) as standin:
        config = flink_config({"connection": {"rest_api_url": "http://h", "sql_gateway_url": standin.url}})
        failed: list[str] = []
        gateway = Gateway(config.connection)
        assert GatewayCatalogs(gateway, failed.append).table(("pg", "d", "page view")) is None
        gateway.close()
    assert (failed == []) is answer


def test_the_gateway_comes_before_the_script(script: str) -> None:
    with StandIn(statements=visible()) as standin:
        world = World(
            ddl_file=script, connection={"rest_api_url": "http://h", "sql_gateway_url": standin.url}
        )
        gateway = Gateway(world.config.connection)
        world.gateway = GatewayCatalogs(gateway, world.failed.append)
        assert world.one(read("k_orders", *K_ORDERS)) == "kafka:orders by gateway"
        sink = write("orders", "ice", "db", "orders", operator="ice.db.orders: Writer")
        assert world.one(sink) == "iceberg:db.orders by gateway"
        assert world.one(write("k_out")) == "kafka:orders_out by gateway", (
            "of one path, the script says another"
        )
        assert world.one(read("users", "pg", "shop", "public.users")) == "postgres:shop.public.users by ddl"
        gateway.close()
    assert world.failed == []


def test_a_gateway_that_is_away_is_reported_once() -> None:
    world = World(
        connection={"rest_api_url": "http://h", "sql_gateway_url": "http://127.0.0.1:9", "max_retries": 1}
    )
    gateway = Gateway(world.config.connection)
    world.gateway = GatewayCatalogs(gateway, world.failed.append)
    for _ in range(3):
        assert world.one(read("k_orders", *K_ORDERS)).startswith("?")
    gateway.close()
    assert len(world.failed) == 1
