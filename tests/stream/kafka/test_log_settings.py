from __future__ import annotations

import logging

import pytest

from frazil.core.errors import InvalidConfig
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.kafka.settings import addresses, admin_settings, logger

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}


def test_security_passes_through_and_what_is_for_readers_does_not() -> None:
    asked = {
        **SERVERS,
        "sasl.password": "x",
        "ssl.ca.location": "/ca",
        "fetch.min.bytes": "1",
        "group.id": "g",
    }
    made = admin_settings(asked)
    assert made.items() >= {**SERVERS, "sasl.password": "x", "ssl.ca.location": "/ca"}.items()
    assert not made.keys() & {"fetch.min.bytes", "group.id"}


def test_messages_name_the_brokers_by_either_name() -> None:
    assert addresses(SERVERS) == addresses({"metadata.broker.list": "127.0.0.1:9"}) == "127.0.0.1:9"


def test_a_misspelt_setting_is_named_and_no_value_told() -> None:
    with pytest.raises(InvalidConfig, match=r"sasl\.pass-word") as caught:
        KafkaLog(KafkaSource({**SERVERS, "sasl.pass-word": "top-secret"}, ("a",)))
    assert "top-secret" not in caught.value.message
    with pytest.raises(InvalidConfig, match=r"security\.protocol") as caught:
        KafkaLog(KafkaSource({**SERVERS, "security.protocol": "top-secret"}, ("a",)))
    assert "top-secret" not in caught.value.message


def test_a_line_that_repeats_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger.name):
        for seconds in range(3):
            logger.error("FAIL [thrd:%d/1]: refused (after %dms in state CONNECT)", seconds, seconds)
        logger.error("another")
    assert [record.getMessage()[-40:] for record in caplog.records] == [
        "FAIL [thrd:0/1]: refused (after 0ms in state CONNECT)"[-40:],
        "another",
    ]
