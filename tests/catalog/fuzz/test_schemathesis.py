"""Requests made from the served OpenAPI document, legal and illegal ones, at every endpoint of the server.

No answer may be a 5xx, and each must have a status, a media type and a body that the document declares.
The endpoints come from the document, so a new one is fuzzed from its first day.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any, TypeAlias

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.catalog.fuzz.seeds import Seeds

from frazil.catalog.server import endpoints
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

pytestmark = pytest.mark.services

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [f"{endpoint.method} {endpoint.path}" for endpoint in endpoints()]
# These make what the others need go away.
DESTRUCTIVE = re.compile(r"DELETE .*|POST .*/(rename|deactivate|register|commit|protection|managed-by)")
# Random input cannot be what these want (a view's own file, a change of a local folder, an empty project).
UNREACHED = {
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/register-view",
    "POST /management/v1/warehouse/{warehouse_id}/storage",
    "DELETE /catalog/v1/{prefix}/namespaces/{namespace}",
    "DELETE /management/v1/project",
    "POST /management/v1/bootstrap",
    # Requests are signed only in warehouses on S3, tokens given only to clients that exist.
    *(name for name in OPERATIONS if name.endswith("/sign")),
    "POST /catalog/v1/oauth/tokens",
}
QUICK, LONG = 15, int(os.environ.get("FRAZIL_FUZZ_EXAMPLES", "150"))

Case: TypeAlias = "schemathesis.Case[Any]"


class Fuzz:
    """One server, its document, and real names in it."""

    def __init__(self, server: FrazilServer) -> None:
        self.server = server
        self.session = requests.Session()
        self.session.trust_env = False
        document = self.session.get(f"{server.uri}/openapi.json", timeout=120).json()
        self.schema = schemathesis.openapi.from_dict(document)
        self.schema.config.update(base_url=server.uri)
        self.operations: dict[str, Any] = {}
        for found in self.schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            self.operations[f"{operation.method.upper()} {operation.path}"] = operation
        self.seeds = Seeds(server)

    def run(self, name: str, mode: GenerationMode, examples: int, seed: int) -> dict[int, int]:
        """Send `examples` requests; how many answers had each status."""
        operation = self.operations[name]
        self.seeds.ensure()
        parameters = tuple(re.findall(r"{(.+?)}", operation.path))
        seen: dict[int, int] = {}

        @hypothesis.seed(seed)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            print_blob=False,
        )
        @hypothesis.given(
            case=operation.as_strategy(generation_mode=mode),
            turn=st.integers(0, 1),
            deep=st.sampled_from((True, True, False)),
        )
        def send(case: Case, turn: int, deep: bool) -> None:
            status = self._send(case, self.seeds.parameters(parameters, turn), deep=deep)
            seen[status] = seen.get(status, 0) + 1
            if status < 300 and DESTRUCTIVE.match(name):
                self.seeds.ensure()

        send()
        return seen

    def _send(self, case: Case, real: dict[str, str], *, deep: bool) -> int:
        path = dict(case.path_parameters or {})
        if deep:
            path |= real
        case.path_parameters = path
        body: Any = case.body
        if isinstance(body, (dict, list)):
            name = "v1" if "/views" in case.path else "g1" if "/generic-tables" in case.path else "t1"
            case.body = self.seeds.harmless(self.seeds.deepened(body, name) if deep else body)
        try:
            response = case.call(session=self.session, timeout=120)
        except (requests.exceptions.InvalidHeader, UnicodeEncodeError):
            return 0
        case.validate_response(response, checks=CHECKS)
        return int(response.status_code)


BOTH = ("sqlite", "postgres")


@pytest.fixture(scope="module")
def fuzz(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzz]:
    """A server of its own, for the fuzzer destroys; local warehouses only in its own folder."""
    folder = tmp_path_factory.mktemp("fuzz")
    url: str | None = None
    if request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.create_database(f"fuzz_{uuid.uuid4().hex[:8]}")
    arguments = ["--no-access-log", "--local-paths", str(folder / "data"), "--log-level", "error"]
    with FrazilServer(folder, database_url=url, arguments=arguments) as server:
        found = Fuzz(server)
        yield found
        found.session.close()
        found.seeds.client.close()


def has_input(operation: str) -> bool:
    (endpoint,) = (e for e in endpoints() if f"{e.method} {e.path}" == operation)
    return endpoint.body is not None or endpoint.query is not None


def quick(operation: str) -> int:
    """Of the bodies that hold several commits few are legal as a whole, so more are made."""
    return 20 if "transactions" in operation else QUICK


@pytest.mark.parametrize("fuzz", ["sqlite"], indirect=True)
def test_every_endpoint_is_in_the_document(fuzz: Fuzz) -> None:
    assert sorted(fuzz.operations) == sorted(OPERATIONS)


@pytest.mark.parametrize("fuzz", BOTH, indirect=True)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_legal_requests(fuzz: Fuzz, operation: str) -> None:
    seen = fuzz.run(operation, GenerationMode.POSITIVE, quick(operation), seed=1)
    print(operation, seen)
    if operation not in UNREACHED:
        assert any(200 <= status < 400 for status in seen), f"no request got through: {seen}"


@pytest.mark.parametrize("fuzz", ["sqlite"], indirect=True)
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if has_input(name)])
def test_illegal_requests(fuzz: Fuzz, operation: str) -> None:
    seen = fuzz.run(operation, GenerationMode.NEGATIVE, quick(operation), seed=2)
    print(operation, seen)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fuzz", BOTH, indirect=True)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_many_requests(fuzz: Fuzz, operation: str) -> None:
    fuzz.run(operation, GenerationMode.POSITIVE, LONG, seed=3)
    if has_input(operation):
        fuzz.run(operation, GenerationMode.NEGATIVE, LONG, seed=4)
