"""The reference server and the kit's harness, tested with each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.rck import Verdict, parse_report, run_rck
from frazil.devstack.reference import ReferenceCatalog

CATALOG = "RESTCompatibilityKitCatalogTests"


@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_reference_server_passes_a_test_of_the_kit(kind: str, postgres_url: Callable[[], str]) -> None:
    url = postgres_url() if kind == "postgres" else None
    with ReferenceCatalog(database_url=url) as server:
        methods = (f"{CATALOG}#testCreateNamespace", f"{CATALOG}#tableCreationWithoutNamespace")
        result = run_rck(server.uri, str(server.warehouse), methods=methods)
    assert (result.started, result.passed, result.failed) == (2, 1, 1)
    assert list(result.reasons(Verdict.FAILED)) == [f"{CATALOG}.tableCreationWithoutNamespace"]


@pytest.mark.jvm
@pytest.mark.services
def test_a_run_that_starts_no_test_is_refused() -> None:
    with ReferenceCatalog() as server:
        connection_uri = server.uri
        assert status(server.port, "/v1/config") == 200
    with pytest.raises(ServiceError, match="started no test"):
        run_rck(connection_uri, methods=(f"{CATALOG}#testCreateNamespace",))


@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.exhaustive
def test_the_reference_server_has_its_known_score() -> None:
    with ReferenceCatalog() as server:
        result = run_rck(server.uri, str(server.warehouse))
    assert (result.passed, result.failed, result.aborted, result.skipped) == (144, 1, 11, 1)


def test_reports_are_read(tmp_path: Path) -> None:
    report = tmp_path / "TEST-x.xml"
    report.write_text(
        """<testsuite><testcase name="good()" classname="a.b.C" time="1.5"/>
        <testcase name="bad()" classname="a.b.C"><failure message="no">stack</failure></testcase>
        <testcase name="odd()" classname="a.b.C"><error message="boom">stack</error></testcase>
        <testcase name="off()" classname="a.b.C"><skipped>not here</skipped></testcase>
        <testcase name="cut()" classname="a.b.C"><skipped>org.opentest4j.TestAbortedException: needs
 more\n\tat a.b.C(C.java:1)</skipped></testcase></testsuite>"""
    )
    found = {test.name: (test.verdict, test.reason) for test in parse_report(report)}
    assert found == {
        "C.good": (Verdict.PASSED, ""),
        "C.bad": (Verdict.FAILED, "no"),
        "C.odd": (Verdict.FAILED, "boom"),
        "C.off": (Verdict.SKIPPED, "not here"),
        "C.cut": (Verdict.ABORTED, "needs more"),
    }
