"""Keycloak, a real OpenID provider, in its development mode and in memory."""

from __future__ import annotations

import os
import secrets
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx

from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import KEYCLOAK, jars
from frazil.jvm.java import find_java

_ADMIN = "admin"
_KEYS = "org.keycloak.keys.KeyProvider"
_SECONDS = 30.0


@dataclass(frozen=True)
class Realm:
    """A realm and the addresses that its tokens and users know it by."""

    name: str
    issuer: str

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/token"


class Keycloak(Service):
    """Keycloak on loopback; realms and clients are made by its own admin API.

    >>> with Keycloak() as keycloak:  # doctest: +SKIP
    ...     realm = keycloak.create_realm("lake")
    ...     secret = keycloak.create_client(realm, "etl", audience="frazil")
    ...     keycloak.token(realm, "etl", secret)
    """

    name: ClassVar[str] = "keycloak"
    start_seconds: ClassVar[float] = 600

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._password = secrets.token_urlsafe(16)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Command:
        java = find_java()
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        environment = {
            **keep,
            "JAVA_HOME": str(java.home),
            # It lives for minutes: compiling for speed would cost more than half of its start.
            "JAVA_OPTS_APPEND": " ".join(("-XX:TieredStopAtLevel=1", *java.options)),
            "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
            "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
            "KC_BOOTSTRAP_ADMIN_PASSWORD": self._password,
        }
        arguments = [str(self._home() / "bin" / "kc.sh"), "start-dev", "--db=dev-mem"]
        arguments += ["--http-host=127.0.0.1", f"--http-port={self.port}"]
        return Command(arguments, environment, self.directory)

    def healthy(self) -> bool:
        return status(self.port, "/realms/master") == 200

    def create_realm(self, name: str) -> Realm:
        self._admin("POST", "/realms", {"realm": name, "enabled": True})
        return Realm(name, f"{self.uri}/realms/{name}")

    def create_client(self, realm: Realm, client_id: str, *, audience: str | None = None) -> str:
        """A client with a service account; its secret. Its tokens are for `audience`."""
        secret = secrets.token_urlsafe(24)
        mapper = {
            "name": "audience",
            "protocol": "openid-connect",
            "protocolMapper": "oidc-audience-mapper",
            "config": {"included.custom.audience": audience, "access.token.claim": "true"},
        }
        body = {
            "clientId": client_id,
            "secret": secret,
            "publicClient": False,
            "serviceAccountsEnabled": True,
            "standardFlowEnabled": False,
            "protocolMappers": [mapper] if audience else [],
        }
        self._admin("POST", f"/realms/{realm.name}/clients", body)
        return secret

    def token(self, realm: Realm, client_id: str, secret: str) -> str:
        """An access token by the client-credentials flow."""
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        return self._token(realm.token_url, form)

    def rotate_keys(self, realm: Realm) -> None:
        """A new key signs from now on, and the old one is not published any more."""
        about = self._admin("GET", f"/realms/{realm.name}")
        components = f"/realms/{realm.name}/components"
        found = self._admin("GET", f"{components}?type={_KEYS}&parent={about['id']}")
        old = [entry for entry in found if entry["providerId"] == "rsa-generated"]
        fresh = {
            "name": f"rsa-{secrets.token_hex(4)}",
            "providerId": "rsa-generated",
            "providerType": _KEYS,
            "parentId": about["id"],
            "config": {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]},
        }
        self._admin("POST", components, fresh)
        for entry in old:
            self._admin("DELETE", f"{components}/{entry['id']}")

    def _home(self) -> Path:
        """Starting writes into it, so each instance has its own."""
        (archive,) = jars(KEYCLOAK)
        home = self.directory / archive.stem.replace("-quarkus-dist", "")
        if not home.is_dir():
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(self.directory)
            (home / "bin" / "kc.sh").chmod(0o755)
        return home

    def _admin(self, method: str, path: str, body: object = None) -> Any:
        form = {"grant_type": "password", "client_id": "admin-cli", "username": _ADMIN}
        token_url = f"{self.uri}/realms/master/protocol/openid-connect/token"
        token = self._token(token_url, {**form, "password": self._password})
        return self._answer(
            method, f"{self.uri}/admin{path}", json=body, headers={"Authorization": f"Bearer {token}"}
        )

    def _token(self, url: str, form: dict[str, str]) -> str:
        token: str = self._answer("POST", url, data=form)["access_token"]
        return token

    def _answer(self, method: str, url: str, **request: Any) -> Any:
        with httpx.Client(trust_env=False, timeout=_SECONDS) as client:
            answer = client.request(method, url, **request)
        if answer.is_error:
            raise ServiceError(
                f"Keycloak answered {method} {url} with {answer.status_code}: {answer.text[:500]}"
            )
        return answer.json() if answer.content else None
