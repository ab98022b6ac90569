"""Who gets credentials, for what, and for how long an answer with them may be believed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.catalog.api.client import Answer, Catalog, Client, connect, key, schema, set_properties
from tests.catalog.vending.conftest import Lake
from tests.catalog.vending.recording_sts import RecordingSts
from tests.catalog.vending.support import (
    BUCKET,
    DELEGATION,
    create_warehouse,
    keys_of,
    s3_of,
    warehouse_body,
)

from frazil.catalog.api.delegation import Asked, Choice, Delegated, asked, variant
from frazil.catalog.http import Request
from frazil.catalog.identity import ANONYMOUS, Principal
from frazil.catalog.vending import Access
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.devstack.sts_proxy import StsProxy

NS = ("ns",)
MANAGED = {DELEGATION: "client-managed"}
READ = {"X-Frazil-Access": "read"}
UNSIGNED: dict[str, Any] = {"remote-signing-enabled": False}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Asked()),
        ("", Asked()),
        ("teleport", Asked()),
        ("vended-credentials", Asked(vended=True)),
        (" Vended-Credentials ,teleport", Asked(vended=True)),
        ("remote-signing", Asked(signing=True)),
        ("vended-credentials,remote-signing", Asked(vended=True, signing=True)),
        ("client-managed", Asked(managed=True)),
        ("client-managed,teleport", Asked(managed=True)),
        ("client-managed,vended-credentials", Asked(vended=True)),
        ("remote-signing,client-managed", Asked(signing=True)),
    ],
)
def test_what_the_header_asks_for(header: str | None, expected: Asked) -> None:
    assert asked(header) == expected


def vended(answer: Answer) -> bool:
    body = answer.ok()
    assert ("storage-credentials" in body) == ("s3.access-key-id" in body["config"])
    return "storage-credentials" in body


@pytest.mark.parametrize(
    "header", [None, "teleport", "vended-credentials", "remote-signing,vended-credentials"]
)
def test_credentials_are_vended(lake: Lake, header: str | None) -> None:
    headers = {} if header is None else {DELEGATION: header}
    assert vended(lake.catalog.load(NS, "t1", headers))


def test_a_header_may_be_repeated(lake: Lake) -> None:
    path = (lake.catalog.root + lake.catalog.table_path(NS, "t1")).encode()
    modes = [f"{DELEGATION}: {mode}\r\n".encode() for mode in ("vended-credentials", "client-managed")]
    for headers in (b"".join(modes), b"".join(reversed(modes))):
        assert vended(lake.catalog.client.raw_get(path, headers=headers))
    assert not vended(lake.catalog.client.raw_get(path, headers=modes[1] * 2))


def test_client_managed_gets_none(lake: Lake) -> None:
    answer = lake.catalog.load(NS, "t1", MANAGED)
    assert not vended(answer)
    assert "cache-control" not in answer.headers
    assert (
        lake.catalog.create_table(NS, "managed", MANAGED).ok()["config"].keys()
        == answer.json["config"].keys()
    )
    path = lake.catalog.table_path(NS, "t1") + "/credentials"
    assert lake.catalog.send("GET", path, None, MANAGED).ok() == {"storage-credentials": []}


def test_a_warehouse_that_does_not_vend_wins(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> None:
    body = warehouse_body(object_store, **{"sts-enabled": False}, **UNSIGNED)
    catalog = create_warehouse(frazil_sqlite.port, body)
    for header in ("vended-credentials", "remote-signing", "vended-credentials,remote-signing"):
        created = catalog.create_table(NS, f"t-{len(header)}", {DELEGATION: header})
        loaded = catalog.load(NS, f"t-{len(header)}", {DELEGATION: header})
        assert not vended(created)
        assert not vended(loaded)
        assert "s3.remote-signing-enabled" not in loaded.json["config"]


def test_what_an_answer_holds(lake: Lake) -> None:
    before = time.time() * 1000
    answer = lake.catalog.load(NS, "t1", {DELEGATION: "vended-credentials"})
    assert answer.headers["cache-control"] == "no-store"
    body = answer.ok()
    (entry,) = body["storage-credentials"]
    assert entry["prefix"] == body["metadata"]["location"] == f"s3://{BUCKET}/{lake.inside}"
    config = entry["config"]
    assert config["s3.endpoint"] == lake.store.endpoint
    assert config["s3.region"] == config["client.region"] == lake.store.region
    assert config["s3.path-style-access"] == "true"
    assert config["expiration-time"] == config["s3.session-token-expires-at-ms"]
    assert before + 300_000 < int(config["expiration-time"]) < before + 3_700_000
    expected = f"v1/{lake.catalog.prefix}/namespaces/ns/tables/t1/credentials"
    assert config["client.refresh-credentials-endpoint"] == expected
    # Older clients read only this.
    assert {name: body["config"][name] for name in config} == config


def test_the_refresh_endpoint_leads_back_to_the_table(lake: Lake) -> None:
    levels, name = ("a b", "ü/x"), "t é+%1"
    for depth in (1, 2):
        lake.catalog.create_namespace(*levels[:depth]).ok()
    config = keys_of(lake.catalog.create_table(levels, name).ok())
    endpoint = config["client.refresh-credentials-endpoint"]
    assert endpoint.isascii()
    again = lake.catalog.client.send("GET", f"/catalog/{endpoint}")
    assert again.headers["cache-control"] == "no-store"
    assert keys_of(again.ok()) == config


def test_a_session_for_reading_is_renewed_for_reading(lake: Lake) -> None:
    config = keys_of(lake.catalog.load(NS, "t1", READ).ok())
    assert config["client.refresh-credentials-endpoint"].endswith("/credentials?access=read")
    # Clients renew without our header.
    again = keys_of(
        lake.catalog.client.send("GET", "/catalog/" + config["client.refresh-credentials-endpoint"]).ok()
    )
    assert again == config
    assert config["s3.access-key-id"] != lake.keys()["s3.access-key-id"]


def test_a_header_cannot_widen_a_renewal(lake: Lake) -> None:
    path = lake.catalog.table_path(NS, "t1") + "/credentials"
    wide = {"X-Frazil-Access": "read-write"}
    assert keys_of(lake.catalog.send("GET", path, None, wide, access="read").ok()) == lake.keys(READ)


@pytest.mark.parametrize("value", ["write", "READ", "", "read,read-write"])
def test_an_unknown_access_is_refused(lake: Lake, value: str) -> None:
    headers = {"X-Frazil-Access": value}
    lake.catalog.load(NS, "t1", headers).refused(400, None, "X-Frazil-Access", "read-write")
    lake.catalog.create_table(NS, "never", headers).refused(400)
    lake.catalog.load(NS, "never").refused(404)
    path = lake.catalog.table_path(NS, "t1") + "/credentials"
    lake.catalog.send("GET", path, access=value or "x").refused(400)


def test_credentials_of_what_is_not_there(lake: Lake) -> None:
    path = lake.catalog.table_path(NS, "missing") + "/credentials"
    lake.catalog.send("GET", path).refused(404, "NoSuchTableException")


def test_create_and_register_vend(lake: Lake) -> None:
    created = lake.catalog.create_table(NS, "made").ok()
    s3 = s3_of(lake.store, keys_of(created))
    place = created["metadata"]["location"].removeprefix(f"s3://{BUCKET}/")
    s3.put_object(Bucket=BUCKET, Key=f"{place}/data/x", Body=b"x")
    body = {"name": "registered", "metadata-location": created["metadata-location"], "overwrite": False}
    lake.catalog.send("DELETE", lake.catalog.table_path(NS, "made")).ok(204)
    registered = lake.catalog.send("POST", lake.catalog.namespace_path(NS, "register"), body).ok()
    assert keys_of(registered)["client.refresh-credentials-endpoint"].endswith(
        "/tables/registered/credentials"
    )
    s3_of(lake.store, keys_of(registered)).get_object(Bucket=BUCKET, Key=f"{place}/data/x")


def test_a_staged_table_has_credentials_and_renews_them(lake: Lake) -> None:
    body = {"name": "staged", "schema": schema(), "stage-create": True}
    staged = lake.catalog.send("POST", lake.catalog.namespace_path(NS, "tables"), body).ok()
    config = keys_of(staged)
    place = staged["metadata"]["location"].removeprefix(f"s3://{BUCKET}/")
    s3_of(lake.store, config).put_object(Bucket=BUCKET, Key=f"{place}/data/x", Body=b"x")
    endpoint = config["client.refresh-credentials-endpoint"]
    again = keys_of(lake.catalog.client.send("GET", f"/catalog/{endpoint}").ok())
    assert again == config
    # Who has not the server's word gets nothing for a table that is not there.
    bare = endpoint.partition("?")[0]
    lake.catalog.client.send("GET", f"/catalog/{bare}").refused(404)
    lake.catalog.client.send("GET", f"/catalog/{bare}?staged=AAAA").refused(403)


def test_nobody_stages_their_way_into_another_table(lake: Lake) -> None:
    for location in (lake.inside, f"{lake.inside}/data", lake.parent):
        body = {
            "name": "thief",
            "schema": schema(),
            "stage-create": True,
            "location": f"s3://{BUCKET}/{location}",
        }
        answer = lake.catalog.send("POST", lake.catalog.namespace_path(NS, "tables"), body)
        assert answer.status in (400, 409), answer.body
        assert b"s3.secret-access-key" not in answer.body


def test_a_staged_location_that_was_taken_is_not_renewed(lake: Lake) -> None:
    body = {"name": "slow", "schema": schema(), "stage-create": True}
    staged = lake.catalog.send("POST", lake.catalog.namespace_path(NS, "tables"), body).ok()
    location = staged["metadata"]["location"]
    lake.catalog.create_table(NS, "quick", location=location).ok()
    endpoint = keys_of(staged)["client.refresh-credentials-endpoint"]
    answer = lake.catalog.client.send("GET", f"/catalog/{endpoint}")
    assert answer.status in (400, 409), answer.body


def test_commits_answer_without_credentials(lake: Lake) -> None:
    lake.catalog.create_table(NS, "committed").ok()
    loaded = lake.catalog.load(NS, "committed")
    answer = lake.catalog.commit(NS, "committed", set_properties(a="1"))
    assert answer.ok().keys() == {"metadata-location", "metadata"}
    # A 304 to its ETag would leave the caller with credentials of an older load.
    after = lake.catalog.load(NS, "committed", {"If-None-Match": answer.headers["etag"]})
    assert after.status == 200
    assert after.headers["etag"] != loaded.headers["etag"]


def etag(catalog: Catalog, headers: dict[str, str] | None = None, **query: str) -> str:
    return catalog.load(NS, "t1", headers, **query).headers["etag"]


def test_etags_tell_apart_what_differs(lake: Lake) -> None:
    variants = [
        etag(lake.catalog),
        etag(lake.catalog, READ),
        etag(lake.catalog, MANAGED),
        etag(lake.catalog, snapshots="refs"),
    ]
    assert len(set(variants)) == len(variants)
    assert etag(lake.catalog) == variants[0]
    assert lake.catalog.load(NS, "t1", {"If-None-Match": variants[0]}).status == 304
    assert lake.catalog.load(NS, "t1", {"If-None-Match": variants[0], **READ}).status == 200


def test_etags_tell_callers_apart() -> None:
    choice = Choice(vend=True, sign=False, access=Access.READ, asked=Asked())
    variants = set()
    for principal in (ANONYMOUS, Principal("oidc", "ann"), Principal("oidc", "bob")):
        request = Request("GET", "/", {}, {}, b"", b"", "id", principal=principal)
        variants.add(variant(request, choice))
    assert len(variants) == 3


def test_what_is_given_prints_no_key() -> None:
    assert "SECRET" not in repr(Delegated(b'{"k":"SECRET"}', b'[{"k":"SECRET"}]', 1, ""))


def test_a_change_of_the_warehouse_ends_its_etags(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    catalog = create_warehouse(frazil_sqlite.port, warehouse_body(object_store))
    catalog.create_table(NS, "t1").ok()
    first = catalog.load(NS, "t1")
    warehouse = f"/management/v1/warehouse/{catalog.prefix}"
    catalog.client.send("POST", f"{warehouse}/delete-profile", {"delete-profile": {"type": "hard"}}).ok()
    second = catalog.load(NS, "t1", {"If-None-Match": first.headers["etag"]})
    assert keys_of(second.ok()) != keys_of(first.json)


def test_no_304_for_a_credential_that_is_about_to_expire(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    # Of which the first half is for the two loads that find it good.
    lifetime = 14
    with StsProxy(object_store, lifetime) as sts:
        body = warehouse_body(object_store, **{"sts-endpoint": sts.endpoint})
        catalog = create_warehouse(frazil_sqlite.port, body)
        catalog.create_table(NS, "t1").ok()
        first = catalog.load(NS, "t1")
        expires = int(keys_of(first.json)["expiration-time"]) / 1000
        same = {"If-None-Match": first.headers["etag"]}
        assert catalog.load(NS, "t1", same).status == 304
        asked_at = time.time()
        while (answer := catalog.load(NS, "t1", same)).status == 304:
            # With less than half of its life it is not called good any more; expiries are whole seconds.
            assert expires - asked_at > lifetime / 2 - 1
            time.sleep(0.05)
            asked_at = time.time()
        assert int(keys_of(answer.ok())["expiration-time"]) / 1000 > expires


def test_a_replay_has_credentials_of_now(lake: Lake) -> None:
    headers = key()
    first = lake.catalog.create_table(NS, "once", headers).ok()
    again = lake.catalog.create_table(NS, "once", headers).ok()
    assert again["metadata"] == first["metadata"]
    assert keys_of(again) == keys_of(first)


def test_a_refused_session_leaves_nothing_behind(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    denied = (
        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    )
    with RecordingSts(object_store) as sts:
        body = warehouse_body(object_store, **{"sts-endpoint": sts.endpoint})
        catalog = create_warehouse(frazil_sqlite.port, body)
        sts.instead = [(403, denied)]
        message = catalog.create_table(NS, "t").refused(
            503, "CredentialsNotVended", "AccessDenied", "not you"
        )
        assert object_store.role_arn in message
        assert object_store.catalog.secret not in message
        catalog.load(NS, "t").refused(404)
        catalog.create_table(NS, "t").ok()


def test_one_session_serves_many_loads(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> None:
    with RecordingSts(object_store) as sts:
        body = warehouse_body(object_store, **{"sts-endpoint": sts.endpoint})
        body["storage-credential"]["external-id"] = "the-external-id"
        body["storage-profile"]["sts-session-tags"] = {"team": "lake"}
        body["storage-profile"]["sts-token-validity-seconds"] = 1800
        catalog = create_warehouse(frazil_sqlite.port, body)
        sts.asked.clear()
        catalog.create_table(NS, "t", MANAGED).ok()
        with ThreadPoolExecutor(16) as pool:
            answers = pool.map(
                lambda _: connect(frazil_sqlite.port, body["warehouse-name"]).load(NS, "t"), range(32)
            )
            assert len({keys_of(answer.ok())["s3.access-key-id"] for answer in answers}) == 1
        (asked_for,) = sts.asked
        assert asked_for["RoleArn"] == object_store.role_arn
        assert asked_for["ExternalId"] == "the-external-id"
        assert asked_for["DurationSeconds"] == "1800"
        assert (asked_for["Tags.member.1.Key"], asked_for["Tags.member.1.Value"]) == ("team", "lake")
        catalog.load(NS, "t", READ).ok()
        assert len(sts.asked) == 2
        assert "s3:PutObject" not in sts.asked[1]["Policy"]


def test_the_server_takes_on_its_own_role(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> None:
    """`assume-role-arn` is for the server's own reads and writes, `sts-role-arn` for what is vended."""
    with RecordingSts(object_store) as sts:
        profile = {"sts-endpoint": sts.endpoint, "assume-role-arn": object_store.role_arn}
        body = warehouse_body(object_store, **profile)
        body["storage-credential"]["external-id"] = "the-external-id"
        catalog = create_warehouse(frazil_sqlite.port, body)
        sts.asked.clear()
        created = catalog.create_table(NS, "t", MANAGED).ok()
        register = {"name": "u", "metadata-location": created["metadata-location"]}
        catalog.send("DELETE", catalog.table_path(NS, "t")).ok(204)
        catalog.send("POST", catalog.namespace_path(NS, "register"), register, MANAGED).ok()
        (own,) = sts.asked
        assert (own["RoleArn"], own["RoleSessionName"]) == (object_store.role_arn, "frazil-server")
        assert own["ExternalId"] == "the-external-id"
        assert "Policy" not in own


def test_a_role_the_server_cannot_take_on_is_named(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    body = warehouse_body(object_store, **{"assume-role-arn": "arn:aws:iam::000000000000:role/Nobody"})
    answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
    message = answer.refused(400, "StorageValidationFailed", "write step", "AssumeRole", "role/Nobody")
    assert object_store.catalog.secret not in message
