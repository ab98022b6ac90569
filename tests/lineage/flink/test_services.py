"""The clients of both services, against the stand-in."""

from __future__ import annotations

import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.lineage.standin import Reply, StandIn, visible

from frazil.core.errors import FrazilError, NotFound, Unauthenticated, Unavailable, Unprocessable
from frazil.devstack.azurite import _certificate
from frazil.lineage.flink.config import Connection, flink_config
from frazil.lineage.flink.gateway import Gateway, quoted
from frazil.lineage.flink.rest import JobManager


def connection(standin: StandIn, **more: Any) -> Connection:
    given = {"rest_api_url": standin.url, "sql_gateway_url": standin.url, **more}
    return flink_config({"connection": given}).connection


def test_attempts_are_counted_in_all() -> None:
    with StandIn(faults=[("config", [Reply(500), Reply(503)])]) as standin:
        manager = JobManager(connection(standin))
        assert manager.cluster().flink_version == "2.1.3"
        manager.close()
        assert standin.count("/v1/config") == 3


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_no_more_attempts_than_allowed(attempts: int) -> None:
    with StandIn(faults=[("config", [Reply(500)] * 9)]) as standin:
        manager = JobManager(connection(standin, max_retries=attempts))
        with pytest.raises(Unavailable, match="500"):
            manager.cluster()
        manager.close()
        assert standin.count("/v1/config") == max(1, attempts)


def test_a_stalled_answer_is_a_timeout() -> None:
    with StandIn(faults=[("config", [Reply(stall=True)])]) as standin:
        manager = JobManager(connection(standin, timeout_seconds=1, max_retries=1))
        with pytest.raises(Unavailable):
            manager.cluster()
        manager.close()


def test_truncated_json_is_an_error_without_the_text() -> None:
    with StandIn(faults=[("config", [Reply(body=b'{"flink-version":"2.1')])]) as standin:
        manager = JobManager(connection(standin))
        with pytest.raises(FrazilError, match="not whole JSON") as caught:
            manager.cluster()
        manager.close()
        assert "2.1" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"token": "t0ken"}, "Bearer t0ken"),
        ({"username": "me", "password": "pa55"}, f"Basic {b64encode(b'me:pa55').decode()}"),
    ],
)
def test_credentials_reach_both_services_and_no_error(given: dict[str, str], header: str) -> None:
    with StandIn(authorization=header, statements=visible()) as standin:
        manager, gateway = JobManager(connection(standin, **given)), Gateway(connection(standin, **given))
        assert manager.jobs()
        assert gateway.catalogs() == ["default_catalog", "ice"]
        manager.close()
        gateway.close()
        wrong = {name: f"{value}x" for name, value in given.items()}
        manager, gateway = JobManager(connection(standin, **wrong)), Gateway(connection(standin, **wrong))
        for ask in (manager.jobs, gateway.catalogs):
            with pytest.raises(Unauthenticated, match="401") as caught:
                ask()
            for secret in wrong.values():
                assert secret not in str(caught.value)
        manager.close()
        gateway.close()


@pytest.mark.parametrize("scheme", ["https", "HTTPS", "Https"])
def test_a_certificate_that_nobody_vouches_for_is_refused_however_the_address_is_written(
    scheme: str, tmp_path: Path
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*_certificate(tmp_path))
    with StandIn(tls=tls) as standin:
        url = standin.url.replace("https", scheme)
        manager = JobManager(connection(standin, rest_api_url=url, max_retries=1))
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            manager.cluster()
        manager.close()
        manager = JobManager(connection(standin, rest_api_url=url, verify_ssl=False))
        assert manager.cluster().flink_version == "2.1.3"
        manager.close()


def test_a_job_that_is_gone_is_not_found() -> None:
    with StandIn() as standin:
        manager = JobManager(connection(standin))
        with pytest.raises(NotFound, match="404"):
            manager.job("0" * 32)
        manager.close()


def test_statements_give_rows_over_pages() -> None:
    with StandIn(statements=visible()) as standin:
        gateway = Gateway(connection(standin))
        assert gateway.describe_catalog("ice")["catalog-type"] == "hadoop"
        assert gateway.databases("ice") == ["db"]
        assert "k_orders" in gateway.tables("default_catalog", "default_database")
        assert "CREATE TABLE" in gateway.create_table("ice", "db", "orders")
        gateway.close()
        assert standin.count("POST /v1/sessions$") == 1
        assert standin.count("DELETE /v1/sessions/") == 1


def test_a_refused_statement_says_why_and_is_not_repeated() -> None:
    with StandIn(statements=visible()) as standin:
        gateway = Gateway(connection(standin))
        with pytest.raises(Unprocessable, match="does not exist") as caught:
            gateway.create_table("default_catalog", "default_database", "nope")
        assert "\tat org.apache" not in caught.value.message
        gateway.close()
        assert standin.count("/statements") == 1


def test_a_result_that_never_comes_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.lineage.flink.gateway._POLL_SECONDS", 0.01)
    waiting = Reply(body=b'{"resultType":"NOT_READY"}')
    with StandIn(faults=[("/result/", [waiting] * 9999)]) as standin:
        gateway = Gateway(connection(standin))
        gateway._seconds = 0
        with pytest.raises(Unavailable, match="sql_gateway_operation_timeout_seconds"):
            gateway.catalogs()
        gateway.close()
        assert standin.count("/cancel") == 1


def test_a_session_that_was_forgotten_is_opened_again() -> None:
    with StandIn(statements=visible()) as standin:
        gateway = Gateway(connection(standin))
        gateway.catalogs()
        standin.faults.append(("/statements", [Reply(404, b'{"errors":["Session does not exist."]}')]))
        assert gateway.catalogs() == ["default_catalog", "ice"]
        gateway.close()
        assert standin.count("POST /v1/sessions$") == 2


def test_a_next_page_elsewhere_is_not_fetched() -> None:
    elsewhere = b'{"resultType":"PAYLOAD","nextResultUri":"http://evil.example/x","results":{"data":[]}}'
    with StandIn(faults=[("/result/", [Reply(body=elsewhere)])]) as standin:
        gateway = Gateway(connection(standin, token="t0ken"))
        with pytest.raises(FrazilError, match="another address"):
            gateway.catalogs()
        gateway.close()


def test_names_are_quoted() -> None:
    assert quoted("a", "b`; DROP TABLE x") == "`a`.`b``; DROP TABLE x`"
