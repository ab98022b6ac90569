"""No secret is ever written down: a server is made to fail in every way that has a secret at hand, and then
its logs, its answers, its files and its command line are searched."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.leaks.search import files_below, forms, leaks
from tests.catalog.signing.conftest import SCHEMA, raw, storage

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore

BUCKET = "leaks"
# With all that base64, percent-encoding and JSON would spell differently.
WRONG = 'wrong/Secret+Key=="with\\everything&in%20it'
WRONG_ID = "AKIAWRONGKEYIDENTIFIER"
EXTERNAL = "an/external+id=that-is-secret"
BOOTSTRAP = "bootstrap/token+of~this-test-0123456789"
VENDED = {"x-iceberg-access-delegation": "vended-credentials"}


@dataclass
class Culprit:
    """A server, everything it said, and the secrets that it was told or made."""

    server: FrazilServer
    store: ObjectStore
    secrets: dict[str, str]
    answers: list[tuple[str, bytes]] = field(default_factory=list)
    #: Of answers that vend keys: these may be in them, and nowhere else.
    vended: dict[str, str] = field(default_factory=dict)
    vending: list[bytes] = field(default_factory=list)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = BOOTSTRAP,
        vends: bool = False,
    ) -> tuple[int, Any]:
        sent = {"content-type": "application/json", **(headers or {})}
        if token is not None:
            sent.setdefault("authorization", f"Bearer {token}")
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        answer = raw(method, f"{self.server.uri}{path}", sent, text)
        if vends:
            self.vending.append(answer.body.encode())
        else:
            self.answers.append((f"the answer to {method} {path}", answer.body.encode()))
        return answer.status, json.loads(answer.body) if answer.body else None

    def run(self, *arguments: str, **environment: str) -> str:
        """A command of ours; what it prints is searched as well."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FRAZIL_", "AWS_"))}
        done = subprocess.run(
            [sys.executable, "-m", "frazil.cli", *arguments],
            check=False,
            env=clean | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.answers.append((f"the output of {' '.join(arguments)}", (done.stdout + done.stderr).encode()))
        return done.stdout


@pytest.fixture(scope="module")
def culprit(tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore) -> Iterator[Culprit]:
    object_store.create_bucket(BUCKET)
    secrets = {
        "the storage secret": object_store.catalog.secret,
        "the wrong storage secret": WRONG,
        "the external id": EXTERNAL,
        "the bootstrap token": BOOTSTRAP,
    }
    server = FrazilServer(
        tmp_path_factory.mktemp("culprit"),
        arguments=["--log-level", "debug"],
        environment={"FRAZIL_BOOTSTRAP_TOKEN": BOOTSTRAP},
    )
    with server:
        found = Culprit(server, object_store, secrets)
        _provoke(found)
        yield found


def _provoke(culprit: Culprit) -> None:
    good = _warehouse(culprit, "good", {"sts-enabled": True, "sts-role-arn": culprit.store.role_arn})
    status, answer = culprit.ask("POST", "/management/v1/warehouse", good)
    assert status == 201, answer
    _management(culprit, good, answer["id"])
    _tables(culprit, answer["id"])
    _clients(culprit)
    _commands(culprit)


def _warehouse(culprit: Culprit, name: str, profile: Mapping[str, Any], **credential: Any) -> dict[str, Any]:
    body = storage(culprit.store, **{"bucket": BUCKET, "key-prefix": name, **profile})
    body["storage-credential"].update(credential)
    return {"warehouse-name": name, **body}


def _bad(culprit: Culprit) -> list[dict[str, Any]]:
    """Warehouses that fail with a secret at hand, each at another place."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    wrong = {"secret-access-key": WRONG, "external-id": EXTERNAL}
    role = "arn:aws:iam::000000000000:role/Nobody"
    return [
        _warehouse(culprit, "bad", {}, **wrong),
        _warehouse(culprit, "bad", {}, **wrong, **{"access-key-id": WRONG_ID}),
        _warehouse(culprit, "bad", {"endpoint": nowhere}),
        _warehouse(culprit, "bad", {"endpoint": nowhere, "sts-enabled": True}, **wrong),
        _warehouse(culprit, "bad", {"sts-enabled": True, "sts-role-arn": role}),
        _warehouse(culprit, "bad", {"sts-enabled": True, "sts-endpoint": nowhere}),
        _warehouse(culprit, "bad", {"bucket": "no-such-bucket"}),
        _warehouse(culprit, "bad", {}, **{"secret-access-key": f"{WRONG} "}),
        _warehouse(culprit, "bad", {}, **{"secret-access-key": [WRONG]}),
        _warehouse(culprit, "bad", {}, **{"credential-type": WRONG[:20], "secret-access-key": WRONG}),
        _warehouse(culprit, "bad", {}, **{"aws-secret-access-key": WRONG}),
        _warehouse(culprit, "bad", {"endpoint": f"http://user:{WRONG[:5]}@127.0.0.1"}, **wrong),
    ]


def _management(culprit: Culprit, good: dict[str, Any], warehouse_id: str) -> None:
    path = f"/management/v1/warehouse/{warehouse_id}"
    for bad in _bad(culprit):
        for target in ("/management/v1/warehouse", "/management/v1/warehouse-creation-validation"):
            status, answer = culprit.ask("POST", target, bad)
            assert status != 201, answer
        update = {"new-storage-credential": bad["storage-credential"]}
        both = {name: bad[name] for name in ("storage-profile", "storage-credential")}
        both["storage-profile"] = {**both["storage-profile"], "key-prefix": "good", "bucket": BUCKET}
        culprit.ask("POST", f"{path}/storage/validate-credential", update)
        culprit.ask("POST", f"{path}/storage/validate-profile", both)
    for body in (f'{{"secret-access-key": "{WRONG}"', json.dumps({"storage-credential": WRONG}), WRONG):
        culprit.ask("POST", "/management/v1/warehouse", body)
    culprit.ask("POST", f"{path}/storage/validate-access")
    update = {"new-storage-credential": {**good["storage-credential"], "external-id": EXTERNAL}}
    assert culprit.ask("POST", f"{path}/storage-credential", update)[0] == 200
    for target in (path, "/management/v1/warehouse", "/management/v1/info", f"{path}/statistics"):
        assert culprit.ask("GET", target)[0] == 200


def _tables(culprit: Culprit, warehouse_id: str) -> None:
    catalog = f"/catalog/v1/{warehouse_id}"
    culprit.ask("GET", "/catalog/v1/config?warehouse=good")
    culprit.ask("POST", f"{catalog}/namespaces", {"namespace": ["a"]})
    tables = f"{catalog}/namespaces/a/tables"
    status, made = culprit.ask("POST", tables, {"name": "t", "schema": SCHEMA}, VENDED, vends=True)
    assert status == 200, made
    keys = made["storage-credentials"][0]["config"]
    culprit.vended = {
        "a vended secret": keys["s3.secret-access-key"],
        "a vended session token": keys["s3.session-token"],
    }
    for target in (f"{tables}/t", f"{tables}/t/credentials"):
        assert culprit.ask("GET", target, None, VENDED, vends=True)[0] == 200
    signing = {"x-iceberg-access-delegation": "remote-signing"}
    _, loaded = culprit.ask("GET", f"{tables}/t", None, signing)
    signer = f"/catalog/{loaded['config']['signer.endpoint']}"
    url = f"{culprit.store.endpoint}/{loaded['metadata']['location'].removeprefix('s3://')}/data/x"
    for method, target in (("GET", url), ("PUT", url), ("GET", f"{url}/../../x"), ("GET", "http://x/")):
        culprit.ask("POST", signer, {"region": "x", "uri": target, "method": method, "headers": {}})
    bulk = f"{culprit.store.endpoint}/{BUCKET}?delete"
    culprit.ask("POST", signer, {"region": "x", "uri": bulk, "method": "POST", "headers": {}, "body": "<x/>"})
    register = {"name": "r", "metadata-location": f"s3://{BUCKET}/good/none.json"}
    culprit.ask("POST", f"{catalog}/namespaces/a/register", register)
    for target in ("/metrics", "/openapi.json", "/nothing", f"{tables}/none"):
        answer = raw("GET", f"{culprit.server.uri}{target}", {"authorization": f"Bearer {BOOTSTRAP}"}, "")
        culprit.answers.append((target, answer.body.encode()))


def _clients(culprit: Culprit) -> None:
    made = culprit.run("client", "create", "robot", "--json", "--data-dir", str(culprit.server.data_dir))
    # The command is there to show it, once.
    culprit.answers.pop()
    culprit.secrets["a client's secret"] = secret = json.loads(made)["client-secret"]
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = f"grant_type=client_credentials&client_id=robot&client_secret={secret}"
    answer = raw("POST", f"{culprit.server.catalog_uri}/v1/oauth/tokens", form, body)
    assert answer.status == 200, answer
    culprit.secrets["an access token"] = token = json.loads(answer.body)["access_token"]
    assert culprit.ask("GET", "/management/v1/warehouse", token=token)[0] == 200
    tokens = "/catalog/v1/oauth/tokens"
    for wrong in (
        f"{body}x",
        body.replace("robot", "nobody"),
        body.replace("client_credentials", "password"),
    ):
        culprit.ask("POST", tokens, wrong, form, token=None)
    basic = base64.b64encode(f"robot:{secret}x".encode()).decode()
    headers = {**form, "authorization": f"Basic {basic}"}
    culprit.ask("POST", tokens, "grant_type=client_credentials", headers, token=None)
    for bad in (f"{token}x", f"{BOOTSTRAP}x", f"{token.rpartition('.')[0]}.", secret):
        assert culprit.ask("GET", "/management/v1/warehouse", token=bad)[0] == 401
    culprit.ask("GET", f"/catalog/v1/config?warehouse=good&token={token}", token=None)


def _commands(culprit: Culprit) -> None:
    keys = {"AWS_ACCESS_KEY_ID": WRONG_ID, "AWS_SECRET_ACCESS_KEY": WRONG}
    remote = {"FRAZIL_URI": culprit.server.uri, "TOKEN": BOOTSTRAP}
    place = ["--s3", BUCKET, "--region", "us-east-1", "--endpoint", culprit.store.endpoint]
    culprit.run("warehouse", "create", "cli", *place, **keys, **remote)
    culprit.run("warehouse", "create", "cli", *place, **keys, **{**remote, "TOKEN": f"{BOOTSTRAP}x"})
    culprit.run("warehouse", "list", "--json", **remote)
    key_file = culprit.server.data_dir / "secret.key"
    key = key_file.read_text().strip()
    culprit.secrets["the encryption key"] = key
    settings = {"FRAZIL_ENCRYPTION_KEY": key, "FRAZIL_BOOTSTRAP_TOKEN": BOOTSTRAP}
    assert "encryption-key" in culprit.run("serve", "--show-config", **settings)
    culprit.run("serve", "--port", "99999", **settings)
    culprit.run("key", "rotate", "--data-dir", str(culprit.server.data_dir), **settings)


def _found(culprit: Culprit, data: bytes, where: str) -> list[str]:
    return list(leaks(data, {**culprit.secrets, **culprit.vended}, where))


def test_answers_and_commands_say_no_secret(culprit: Culprit) -> None:
    assert len(culprit.answers) > 60
    assert [line for where, data in culprit.answers for line in _found(culprit, data, where)] == []


def test_vended_answers_hold_the_vended_keys_and_no_others(culprit: Culprit) -> None:
    for data in culprit.vending:
        assert list(leaks(data, culprit.secrets, "a vended answer")) == []
        assert len(list(leaks(data, culprit.vended, "a vended answer"))) >= 2


def test_the_log_holds_no_secret(culprit: Culprit) -> None:
    log = culprit.server.log.read_bytes()
    assert log.count(b"\n") > 60
    assert b"/management/v1/warehouse" in log
    assert _found(culprit, log, "the log") == []


def test_files_hold_no_secret(culprit: Culprit) -> None:
    """The database with its write-ahead log above all."""
    names = []
    for name, data in files_below(culprit.server.data_dir):
        names.append(name)
        if name != "secret.key":
            assert _found(culprit, data, name) == []
    assert {"catalog.db", "catalog.db-wal", "secret.key"} <= set(names)


def test_the_command_line_holds_no_secret(culprit: Culprit) -> None:
    line = Path(f"/proc/{culprit.server.pid}/cmdline").read_bytes()
    assert b"serve" in line
    assert _found(culprit, line, "the command line") == []


@pytest.mark.parametrize("form", forms("x"))
def test_the_search_finds_what_it_looks_for(form: str) -> None:
    spelled = forms(WRONG)[form]
    assert any(
        line.startswith("s in") for line in leaks(b"before" + spelled + b"after", {"s": WRONG}, "here")
    )
    assert list(leaks(b"nothing here", {"s": WRONG}, "here")) == []


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_the_search_finds_a_secret_inside_base64(before: str) -> None:
    data = base64.b64encode(f"{before}{WRONG}:more".encode())
    assert list(leaks(data, {"s": WRONG}, "here")) != []
