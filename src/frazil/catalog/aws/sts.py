"""AssumeRole of AWS's Security Token Service, and of the stores that speak its protocol."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

import httpx

from frazil.catalog.aws.identity import KeySource
from frazil.catalog.aws.sigv4 import Keys, payload_hash, sign
from frazil.catalog.outgoing import http_client
from frazil.core.errors import StorageError

_VERSION = "2011-06-15"
_ANSWER_LIMIT = 64 * 1024
_MESSAGE_LIMIT = 300
_DEADLINE_SECONDS = 20
_TIMEOUT = httpx.Timeout(10, connect=5)
_PAUSES = (0.1, 0.5)
_RETRIED = frozenset({"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestTimeout"})
_CONTENT_TYPE = "application/x-www-form-urlencoded; charset=utf-8"


@dataclass(frozen=True, slots=True)
class AssumeRole:
    """What is asked for. Some stores have no roles: their sessions have the caller's own rights."""

    role_arn: str | None
    session_name: str
    seconds: int
    policy: str | None = None
    external_id: str | None = field(default=None, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict)

    def form(self) -> bytes:
        """The body of the request."""
        fields = {
            "Action": "AssumeRole",
            "Version": _VERSION,
            "RoleArn": self.role_arn,
            "RoleSessionName": self.session_name,
            "DurationSeconds": str(self.seconds),
            "ExternalId": self.external_id,
            "Policy": self.policy,
        }
        for number, (key, value) in enumerate(self.tags.items(), 1):
            fields[f"Tags.member.{number}.Key"] = key
            fields[f"Tags.member.{number}.Value"] = value
        return urlencode({name: value for name, value in fields.items() if value is not None}).encode()


@dataclass(frozen=True, slots=True)
class Session:
    """Keys that work until they expire."""

    keys: Keys
    expires_at_ms: int


class _Refused(Exception):
    """The service answered no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Sts:
    """One STS endpoint, asked with the keys of one identity."""

    def __init__(self, endpoint: str, region: str, source: KeySource, secrets: Iterable[str] = ()) -> None:
        """`secrets` are masked in messages; the keys that are used always are."""
        self._url = f"{endpoint}/"
        self._region = region
        self._source = source
        self._secrets = tuple(secrets)
        self._client: httpx.AsyncClient | None = None

    async def assume_role(self, request: AssumeRole) -> Session:
        """StorageError, with what the service said, when it does not give a session."""
        keys = await self._source.keys()
        body = request.form()
        who = request.role_arn or "a session"
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                return _session(await self._answer(body, keys))
        except TimeoutError:
            raise self._failure(who, f"no answer within {_DEADLINE_SECONDS} s", keys) from None
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise self._failure(who, f"no answer: {said}", keys) from None
        except _Refused as error:
            said = f"{error.code} (HTTP {error.status}) {error.message}".strip()
            raise self._failure(who, said, keys) from None
        except ValueError as error:
            raise self._failure(who, f"the answer is not understood: {error}", keys) from None

    async def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _answer(self, body: bytes, keys: Keys) -> ET.Element:
        """Asks again where that can help: a session more does no harm."""
        for pause in _PAUSES:
            try:
                return await self._once(body, keys)
            except httpx.TransportError:
                pass
            except _Refused as error:
                if error.status < 500 and error.code not in _RETRIED:
                    raise
            await asyncio.sleep(pause)
        return await self._once(body, keys)

    async def _once(self, body: bytes, keys: Keys) -> ET.Element:
        if self._client is None:
            self._client = http_client(self._url, timeout=_TIMEOUT)
        headers = {"content-type": _CONTENT_TYPE}
        headers |= sign(
            "POST",
            self._url,
            headers,
            payload_hash(body),
            service="sts",
            region=self._region,
            keys=keys,
            now=datetime.now(UTC),
        )
        async with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > _ANSWER_LIMIT:
                    raise ValueError(f"it is longer than {_ANSWER_LIMIT} bytes")
        if response.status_code != 200:
            raise _refusal(response.status_code, bytes(data))
        return _parsed(bytes(data))

    def _failure(self, who: str, said: str, keys: Keys) -> StorageError:
        for secret in (*self._secrets, keys.secret_access_key, keys.session_token, keys.access_key_id):
            # A very short value would blank out ordinary words and could be guessed from that.
            if secret and len(secret) >= 4:
                said = said.replace(secret, "***")
        return StorageError(
            f"AssumeRole for {who} at {self._url}: {said[:_MESSAGE_LIMIT]}", kind="CredentialsNotVended"
        )


def _parsed(data: bytes) -> ET.Element:
    """XML without document types, entities and encodings: those are only ever an attack here."""
    text = data.decode("utf-8")
    if "<!" in text or "\x00" in text:
        raise ValueError("it has a document type or another declaration")
    try:
        return ET.fromstring(text)  # noqa: S314 (nothing that expands gets here)
    except ET.ParseError:
        raise ValueError("it is not XML") from None


def _texts(root: ET.Element, parent: str) -> dict[str, str]:
    """The children of the one element called `parent`, whatever its namespace."""
    found = [element for element in root.iter() if _local(element) == parent]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} elements {parent}")
    return {_local(child): (child.text or "").strip() for child in found[0]}


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _session(root: ET.Element) -> Session:
    fields = _texts(root, "Credentials")
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    for name in names:
        value = fields.get(name, "")
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(f"its {name} is missing or unusable")
    access, secret, token, expiration = (fields[name] for name in names)
    try:
        expires = datetime.fromisoformat(expiration)
    except ValueError:
        raise ValueError("its Expiration is not a time") from None
    if expires.tzinfo is None:
        raise ValueError("its Expiration has no time zone")
    return Session(Keys(access, secret, token), int(expires.timestamp() * 1000))


def _refusal(status: int, data: bytes) -> _Refused:
    try:
        fields = _texts(_parsed(data), "Error")
    except ValueError:
        return _Refused(status, "an answer that is not from an STS", "")
    message = "".join(c if c.isprintable() else " " for c in fields.get("Message", ""))
    return _Refused(status, fields.get("Code", "no code")[:100], message)
