from __future__ import annotations

from typing import Any

import pytest

from frazil.core.errors import InvalidConfig
from frazil.lineage.flink.config import FlinkConfig, flink_config

URL = {"rest_api_url": "http://localhost:8081/"}


def given(connection: dict[str, Any] | None = None, **more: Any) -> FlinkConfig:
    return flink_config({"connection": {**URL, **(connection or {})}, **more})


def test_defaults_are_those_of_datahubs_own_source() -> None:
    config = given()
    assert config.connection.rest_api_url == "http://localhost:8081"
    assert config.connection.timeout_seconds == 30
    assert config.connection.max_retries == 3
    assert config.connection.verify_ssl is True
    assert config.connection.sql_gateway_operation_timeout_seconds == 60
    assert config.include_job_states == ("RUNNING", "FINISHED", "FAILED", "CANCELED")
    assert (config.operator_granularity, config.max_workers, config.env) == ("job", 10, "PROD")
    assert (config.include_lineage, config.include_run_history, config.include_catalog_metadata) == (
        True,
        True,
        False,
    )


def test_fields_and_defaults_agree_with_the_original() -> None:
    """Every setting of the installed original is one of ours, with the same default."""
    original = pytest.importorskip("datahub.ingestion.source.flink.config").FlinkSourceConfig
    theirs = original.model_validate({"connection": URL})
    ours = given()
    for name in original.model_fields:
        if name in ("stateful_ingestion", "job_name_pattern", "catalog_platform_map", "connection"):
            continue
        value = getattr(ours, name)
        assert (list(value) if isinstance(value, tuple) else value) == getattr(theirs, name), name
    for name in type(theirs.connection).model_fields:
        assert getattr(ours.connection, name) == getattr(theirs.connection, name), name


def test_text_is_taken_for_numbers_as_variables_leave_it() -> None:
    config = given({"timeout_seconds": "5", "verify_ssl": "false"}, max_workers="3", env="dev")
    assert (config.connection.timeout_seconds, config.connection.verify_ssl) == (5, False)
    assert (config.max_workers, config.env) == (3, "DEV")


def test_an_address_that_is_empty_is_none_as_in_the_original() -> None:
    assert given({"sql_gateway_url": ""}).connection.sql_gateway_url is None


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        ({"token": "t0ken", "username": "u", "password": "pa55"}, "token, or username and password"),
        ({"username": "u"}, "password is not"),
        ({"password": "pa55"}, "username is not"),
        ({"rest_api_url": "localhost:8081"}, "rest_api_url"),
        ({"rest_api_url": ""}, "rest_api_url"),
        ({"rest_api_url": "http://u:pa55@host"}, "user or password in it"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"sql_gateway_operation_timeout_seconds": 4}, "sql_gateway_operation_timeout_seconds"),
        ({"tokn": "t0ken"}, "legal are rest_api_url, sql_gateway_url, token"),
    ],
)
def test_a_wrong_connection_is_refused_without_its_secrets(connection: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says) as caught:
        given(connection)
    assert "t0ken" not in caught.value.message
    assert "pa55" not in caught.value.message


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"include_job_states": ["RUNNING", "BANANA"]}, "'BANANA' is not legal. Legal: INITIALIZING"),
        ({"include_job_states": []}, "empty"),
        ({"max_workers": 51}, "max_workers"),
        ({"operator_granularity": "task"}, "operator_granularity"),
        ({"include_catalog_metadata": True}, "sql_gateway_url or iceberg_catalogs"),
        ({"job_name_pattern": {"allow": ["("]}}, "no regular expression"),
        ({"iceberg_catalogs": {"ice": {"uri": "http://h", "token": "a", "credential": "b:c"}}}, "not both"),
        (
            {"iceberg_catalogs": {"ice": {"uri": "http://h", "credential": "s3cret"}}},
            "client-id:client-secret",
        ),
        ({"operator_patterns": [{"pattern": "x", "platform": "nats"}]}, r"write \(\?P<name>"),
        ({"catalogs": {}}, "legal are connection, job_name_pattern"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says) as caught:
        given(**settings)
    assert "s3cret" not in caught.value.message


def test_secrets_do_not_print() -> None:
    config = given(
        {"token": "t0ken"}, iceberg_catalogs={"ice": {"uri": "http://h", "credential": "me:s3cret"}}
    )
    assert "t0ken" not in repr(config)
    assert "s3cret" not in repr(config)


def test_names_of_jobs_are_matched_from_their_beginning() -> None:
    config = given(job_name_pattern={"allow": ["prod_.*"], "deny": ["prod_test"]})
    assert config.job_name_pattern.allowed("PROD_orders")
    assert not config.job_name_pattern.allowed("my_prod_orders")
    assert not config.job_name_pattern.allowed("prod_test_1")
    strict = given(job_name_pattern={"allow": ["prod_.*"], "ignoreCase": False})
    assert not strict.job_name_pattern.allowed("PROD_orders")
