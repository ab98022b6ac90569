"""What names of topics tell of sources and sinks: in metrics, and those that the brokers have."""

from __future__ import annotations

from tests.lineage.flink.resolving import K_ORDERS, Topics, World, read, write

from frazil.lineage.model import Unresolved


def test_metrics_name_topics() -> None:
    world = World()
    metric = "0.Source__k_orders[9].KafkaSourceReader.topic.orders.partition.0.currentOffset"
    world.metrics = {
        "v1": (metric, "0.Source__k_other[1].KafkaSourceReader.topic.x.partition.0.currentOffset")
    }
    assert world.one(read("k_orders", *K_ORDERS)) == "kafka:orders by metrics"
    world.metrics = {"v1": (metric, metric.replace("orders.part", "orders2.part"))}
    assert world.one(read("k_orders", *K_ORDERS)) == "? it reads several topics: orders, orders2"
    world.metrics = {"v1": (metric.replace("topic.orders", "topic.my_orders"),)}
    assert "each _ may stand for a dot" in world.one(read("k_orders", *K_ORDERS))


def test_topics_tell_which_name_a_metric_means() -> None:
    world = World()
    world.metrics = {
        "v1": ("0.Source__k_orders[9].KafkaSourceReader.topic.my_orders.partition.0.currentOffset",)
    }
    world.kafka = Topics("my.orders", "orders")
    assert world.one(read("k_orders", *K_ORDERS)) == "kafka:my.orders by kafka"
    world.kafka = Topics("my.orders", "my_orders")
    assert "may stand for a dot (my.orders, my_orders)" in world.one(read("k_orders", *K_ORDERS))


def test_a_topic_with_the_name_of_a_table_is_only_mentioned() -> None:
    world = World()
    world.kafka = Topics("orders")
    for endpoint in (write("orders"), read("orders", "default_catalog", "default_database", "orders")):
        (found,) = world.resolve(endpoint)
        assert isinstance(found, Unresolved)
        assert "a Kafka topic has the same name" in found.remedy
