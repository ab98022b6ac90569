from __future__ import annotations

import logging

import pytest

from frazil.core.errors import InvalidConfig
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.kafka.settings import admin_settings, check_settings, logger

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "true"),
        ("transactional.id", "mine"),
        ("group.instance.id", "mine"),
    ],
)
def test_what_frazil_owns_cannot_be_set(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"`{name}` cannot be set"):
        check_settings({**SERVERS, name: value})


def test_what_frazil_sets_anyway_may_be_said() -> None:
    check_settings({**SERVERS, "isolation.level": "read_committed"})


def test_a_broker_must_be_named() -> None:
    with pytest.raises(InvalidConfig, match=r"bootstrap\.servers"):
        check_settings({})


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
    assert not made.keys() & {"fetch.min.bytes", "group.id", "isolation.level"}


def test_a_misspelt_setting_is_named_and_no_value_told() -> None:
    with pytest.raises(InvalidConfig, match=r"sasl\.pasword") as caught:
        KafkaLog(KafkaSource({**SERVERS, "sasl.pasword": "top-secret"}, ("a",)))
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
