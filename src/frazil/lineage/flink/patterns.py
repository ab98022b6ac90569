"""Operators of the DataStream API name themselves; these patterns find connector and dataset in the name."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from frazil.core.errors import InvalidConfig

_GROUPS = re.compile(r"\{(\w+)\}")
#: A name ends where the plan goes on: `orders: Writer`, `orders[3]`, `orders -> Map`. A folder with and
#: without a slash at its end is one.
_END = r"(?=/*:?(?:\s|\[|<|$))"
_NAME = rf"(?P<name>[^\s<>\[\]]+?){_END}"


class OperatorPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A regular expression that is searched in an operator's name; its named groups fill in the rest.

    >>> OperatorPattern(pattern="Nats-(?P<name>[a-z.]+)", platform="nats").found("Source: Nats-a.b", "read")
    ('nats', 'a.b')
    """

    pattern: str
    platform: str
    dataset: str = "{name}"
    #: Where it applies; without it, to what is read and to what is written.
    direction: Literal["read", "write"] | None = None

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise InvalidConfig(
                f"operator_patterns: {self.pattern!r} is no regular expression: {error}"
            ) from None
        for wanted in _GROUPS.findall(self.platform + self.dataset):
            if wanted not in groups:
                raise InvalidConfig(
                    f"operator_patterns: {self.pattern!r} has no group {wanted!r}; write (?P<{wanted}>…)"
                )

    def found(self, operator: str, direction: str) -> tuple[str, str] | None:
        """Platform and name of the dataset, if this pattern is for such an operator."""
        if self.direction not in (None, direction):
            return None
        match = re.search(self.pattern, operator)
        if match is None:
            return None
        groups = {name: value or "" for name, value in match.groupdict().items()}
        return _filled(self.platform, groups), _filled(self.dataset, groups)


def _filled(template: str, groups: dict[str, str]) -> str:
    return _GROUPS.sub(lambda match: groups[match.group(1)], template)


def _named(classes: str, platform: str) -> OperatorPattern:
    return OperatorPattern(pattern=rf"\b(?:{classes})-{_NAME}", platform=platform)


#: Names that the connectors' classes give, or that people give after them: `KafkaSource-orders`.
KNOWN = (
    _named("KafkaSource|KafkaSink|FlinkKafkaConsumer|FlinkKafkaProducer", "kafka"),
    _named(
        "KinesisStreamsSource|KinesisStreamsSink|KinesisSource|KinesisSink|FlinkKinesisConsumer", "kinesis"
    ),
    _named("PulsarSource|PulsarSink", "pulsar"),
    _named("RMQSource|RMQSink|RabbitMQSource|RabbitMQSink", "rabbitmq"),
    OperatorPattern(
        pattern=rf"\bJdbc(?:Source|Sink)-(?P<platform>postgres|mysql|mariadb|mssql|oracle|db2):{_NAME}",
        platform="{platform}",
    ),
    OperatorPattern(pattern=rf"\bFile(?:Source|Sink)-s3[an]?://{_NAME}", platform="s3"),
    OperatorPattern(pattern=rf"\bFile(?:Source|Sink)-gs://{_NAME}", platform="gcs"),
    OperatorPattern(
        pattern=rf"\bFile(?:Source|Sink)-(?:abfs|wasb)s?://(?P<container>[^\s/@<>\[\]]+)@[^\s/<>\[\]]+"
        rf"(?P<name>/[^\s<>\[\]]+?)?{_END}",
        platform="abs",
        dataset="{container}{name}",
    ),
    OperatorPattern(
        pattern=rf"\bFile(?:Source|Sink)-hdfs://[^/\s]*(?P<name>/[^\s<>\[\]]+?){_END}",
        platform="hdfs",
    ),
    OperatorPattern(
        pattern=rf"\bFile(?:Source|Sink)-file:(?://)?(?P<name>/[^\s<>\[\]]+?){_END}",
        platform="file",
    ),
    _named("IcebergSource|IcebergSink", "iceberg"),
)
