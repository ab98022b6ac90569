"""A file with every key, and YAML as an editor's language server reads it."""

from __future__ import annotations

import re
from typing import Any

import yaml

ENVIRONMENT = {"CATALOG_TOKEN": "token-of-the-catalog", "KAFKA_PASSWORD": "password-of-kafka"}
COMPLETE = """\
catalog:
  uri: http://localhost:8181
  warehouse: lake
  token: ${CATALOG_TOKEN}
  name: ice
kafka:
  bootstrap.servers: localhost:9092
  security.protocol: SASL_SSL
  sasl.password: ${KAFKA_PASSWORD}
  broker.version: 3
  socket.keepalive.enable: yes
spark:
  master: local[*]
  settings: {spark.driver.memory: 2g, spark.ui.enabled: no}
pipelines:
  orders:
    source:
      topics: [orders, no]
      start: {orders: [0, 10]}
      settings: {client.id: 12}
    format: {json: {timestamps: ms}}
    schema:
      order_id: long required
      amount: decimal(10, 2)
      event_time: timestamptz
      item: {type: "struct<sku: string, n: int>", required: true, doc: what was bought}
    table: shop.orders
    partitioning: [day(event_time), bucket(16, order_id)]
    event_time: event_time
    freshness: 30s
    files: {size: 64mb, compression: gzip, compression_level: 3}
    properties: {write.metadata.previous-versions-max: 20}
    format_version: 3
    limits: {records_per_round: 1000, records_per_task: 10}
  events:
    source: {pattern: "events-.*", start: 2026-01-01}
    format: json
    schema: {id: uuid}
    transform: SELECT *, 'x' AS y FROM source
    table: a\\.b.events
    partitioning: id
defaults:
  freshness: 1m
  source: {topics: unused, settings: {fetch.min.bytes: 1}}
  files: {size: 1mb, compression: snappy}
"""


class _Core(yaml.SafeLoader):
    """YAML 1.2, as editors read it: `no` and dates are text."""


_Core.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|false|True|False|TRUE|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?[0-9]*\.[0-9]+", "-+.0123456789"),
    ("null", r"~|null|", ["~", "n", ""]),
    ("merge", r"<<", "<"),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def read_as_editor(text: str) -> Any:
    return yaml.load(text, _Core)
