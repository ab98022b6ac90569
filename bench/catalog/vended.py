"""What a credential in the answer costs: the same tables loaded with and without, on a store with STS."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from typing import Any

from bench.catalog.client import Plan, run
from bench.catalog.documents import append_body, create_body, new_id
from bench.catalog.measurement import Measurement
from bench.catalog.targets import Target
from frazil.devstack.seaweed import ObjectStore

Json = dict[str, Any]

_TABLES = 50
_SNAPSHOTS = 10
_NAMESPACE = "bench_delegated"


def measure(target: Target, *, warm: int, measured: int, rounds: int) -> tuple[Measurement, Measurement]:
    """Plain loads and vended ones. Both are run twice, in turn, so that a busy minute hits both."""
    with ObjectStore() as store:
        on_s3 = replace(target, base=_warehouse(target, store))
        _fill(on_s3)
        found: dict[int, Measurement] = {}
        for _ in range(2):
            for vended in (0, 1):
                plan = Plan(
                    "delegated", warm=warm, measured=measured, rounds=rounds, options=(("vended", vended),)
                )
                one = run(on_s3, plan)
                if vended in found:
                    one.rounds = found[vended].rounds + one.rounds
                found[vended] = one
    found[0].workload, found[1].workload = "load on S3, plain", "load on S3, vended"
    return found[0], found[1]


def _warehouse(target: Target, store: ObjectStore) -> str:
    """A warehouse that vends; what precedes `/namespaces` in its paths."""
    profile, credential = store.warehouse_storage("bench", "warehouse")
    body = {"warehouse-name": "bench-vended", "storage-profile": profile, "storage-credential": credential}
    made = _post(target, "/management/v1/warehouse", json.dumps(body).encode())
    return f"/catalog/v1/{made['id']}"


def _fill(target: Target) -> None:
    _post(target, f"{target.base}/namespaces", json.dumps({"namespace": [_NAMESPACE]}).encode())
    tables = f"{target.base}/namespaces/{_NAMESPACE}/tables"
    for number in range(_TABLES):
        name = f"events_{number:03d}"
        metadata = _post(target, tables, create_body(name))["metadata"]
        parent: int | None = None
        for sequence in range(1, _SNAPSHOTS + 1):
            current = new_id()
            body = append_body(metadata["location"], metadata["table-uuid"], parent, sequence, current)
            _post(target, f"{tables}/{name}", body)
            parent = current


def _post(target: Target, path: str, body: bytes) -> Json:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status not in (200, 201):
        raise RuntimeError(f"POST {path} was answered {answer.status}: {content[:500]!r}")
    found: Json = json.loads(content)
    return found
