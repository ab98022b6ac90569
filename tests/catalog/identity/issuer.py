"""A small OpenID provider on loopback: real documents over HTTP, real signatures, and every way to be bad."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

Json = dict[str, Any]
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_ALGORITHMS = jwt.algorithms.get_default_algorithms()


@dataclass(frozen=True)
class Key:
    """A key pair with the id and algorithm that it is published under."""

    private: Private
    algorithm: str
    key_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def published(self, **changes: Any) -> Json:
        document = json.loads(_ALGORITHMS[self.algorithm].to_jwk(self.private.public_key()))
        found = {**document, "kid": self.key_id, "alg": self.algorithm, "use": "sig", **changes}
        found.pop("key_ops", None)
        return {name: value for name, value in found.items() if value is not None}

    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def rsa_key(bits: int = 2048, algorithm: str = "RS256") -> Key:
    return Key(rsa.generate_private_key(65537, bits), algorithm)


def ec_key() -> Key:
    return Key(ec.generate_private_key(ec.SECP256R1()), "ES256")


class Issuer:
    """Publishes `keys`; what it is asked for is counted in `asked`."""

    def __init__(self, *keys: Key) -> None:
        self.keys: list[Any] = [key.published() for key in keys]
        self.asked: Counter[str] = Counter()
        #: Changes of the discovery document, a status instead of it, seconds to wait before each answer.
        self.about: Json = {}
        self.status = 200
        self.seconds = 0.0
        self.location: str | None = None
        self.padding = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/issuer"

    def claims(self, **changes: Any) -> Json:
        """What a good token says; None leaves a claim out."""
        now = int(time.time())
        claims = {"iss": self.uri, "aud": "frazil", "sub": "alice", "iat": now, "exp": now + 300, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: Key, headers: Json | None = None, **changes: Any) -> str:
        """A token signed with `key`; what is changed is changed before it is signed."""
        return jwt.encode(
            self.claims(**changes),
            key.private,
            algorithm=key.algorithm,
            headers={"kid": key.key_id, **(headers or {})},
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked[self.path] += 1
                time.sleep(issuer.seconds)
                document = issuer._document(self.path)
                body = json.dumps(document).encode() + b" " * issuer.padding
                self.send_response(issuer.status if document is not None else 404)
                if issuer.location is not None:
                    self.send_header("Location", issuer.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _document(self, path: str) -> Json | None:
        if path == "/issuer/.well-known/openid-configuration":
            return {"issuer": self.uri, "jwks_uri": f"{self.uri}/keys", **self.about}
        return {"keys": self.keys} if path == "/issuer/keys" else None


def encoded(document: object) -> str:
    """A part of a JWT, by hand."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
