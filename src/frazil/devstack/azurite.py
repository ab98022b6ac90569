"""Azure's blob service, emulated: Azurite, from npm.

It checks account keys, tokens' claims (not their signatures) and the signatures of containers and blobs. It
knows no hierarchical namespace, so it refuses every signature of a directory.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import http.client
import ipaddress
import os
import secrets
import ssl
from contextlib import closing
from email.utils import format_datetime
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from frazil.core.errors import ServiceError
from frazil.devstack import npm
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

_VERSION = "2023-11-03"


class Azurite(Service):
    """One account on a loopback port, with a key made anew for every instance.

    With `oauth` it speaks TLS, with a certificate of its own, and takes bearer tokens too.
    """

    name: ClassVar[str] = "azurite"
    account: ClassVar[str] = "frazilaccount"

    def __init__(self, directory: Path | None = None, *, oauth: bool = False) -> None:
        super().__init__(directory)
        self._port = free_port()
        self._oauth = oauth
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._node = npm.node()
        self._modules = npm.packages("azurite")

    @property
    def endpoint(self) -> str:
        """The blob service of the account; the emulator has the account's name in the path."""
        return f"http{'s' * self._oauth}://127.0.0.1:{self._port}/{self.account}"

    @property
    def tls(self) -> ssl.SSLContext:
        """Trusts the certificate of this instance and no other."""
        return ssl.create_default_context(cafile=str(self.directory / "certificate.pem"))

    def create_container(self, name: str) -> str:
        """Create the container `name` if it is not there; returns its name."""
        status = self._put(f"/{self.account}/{name}", "restype", "container")
        if status not in (201, 409):
            raise ServiceError(f"azurite did not create the container {name}: HTTP {status}")
        return name

    def healthy(self) -> bool:
        try:
            with closing(self._connection()) as connection:
                connection.request("GET", "/")
                return connection.getresponse().status >= 400
        except (OSError, http.client.HTTPException):
            return False

    def command(self) -> Command:
        program = self._modules / "azurite" / "dist" / "src" / "blob" / "main.js"
        arguments = [self._node, str(program), "--blobHost", "127.0.0.1", "--blobPort", str(self._port)]
        arguments += ["--location", str(self.directory), "--skipApiVersionCheck", "--disableTelemetry"]
        if self._oauth:
            certificate, key = _certificate(self.directory)
            arguments += ["--oauth", "basic", "--cert", str(certificate), "--key", str(key)]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.directory)}
        # The key is in no argument: those are for everybody's eyes.
        environment["AZURITE_ACCOUNTS"] = f"{self.account}:{self.key}"
        return Command(arguments, environment, self.directory)

    def _connection(self) -> http.client.HTTPConnection:
        if self._oauth:
            return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=10, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)

    def _put(self, path: str, name: str, value: str) -> int:
        """An empty PUT with one query parameter, signed with the account's key."""
        date = format_datetime(dt.datetime.now(dt.UTC), usegmt=True)
        lines = ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{_VERSION}"]
        text = "\n".join([*lines, f"/{self.account}{path}", f"{name}:{value}"])
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        headers = {"x-ms-date": date, "x-ms-version": _VERSION, "content-length": "0"}
        headers["authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        with closing(self._connection()) as connection:
            connection.request("PUT", f"{path}?{name}={value}", headers=headers)
            return connection.getresponse().status


def _certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is good for a day, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "frazil devstack")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = directory / "certificate.pem", directory / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.unlink(missing_ok=True)
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file
