"""A schema registry with Confluent's API, and the header by which a record names its schema.

What a registry gave for an id is kept for as long as the process lives: ids are never given twice.
"""

from __future__ import annotations

import random
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.addresses import is_loopback
from frazil.core.errors import InvalidConfig, NotAllowed, NotFound, Unauthenticated, Unavailable
from frazil.stream.config.model import Registry

SchemaKind: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]

#: What a header takes of a record: a zero, and the id.
HEADER_BYTES = 5
#: In `header_ids`: the record has no value; its value begins with no header.
NO_VALUE, NO_HEADER = -1, -2

_HEADER = struct.Struct(">BI")
_ATTEMPTS = 4
_TIMEOUT = httpx.Timeout(10.0)
_FIRST_PAUSE = 0.25
#: For so long an id that the registry does not know is not asked for again.
_UNKNOWN_SECONDS = 10.0
#: Confluent's codes for "there is no such schema", "… subject", "… version".
_UNKNOWN_CODES = {40401, 40402, 40403}
_RETRIED = {408, 425, 429}


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    id: int
    kind: SchemaKind
    text: str
    #: Text of everything that it refers to, also indirectly, by the name it is referred to by: the Avro name
    #: of a type, the path of a Protobuf import. What is referred to comes before what refers to it.
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Known:
    """What a process knows of one registry."""

    schemas: dict[int, RegisteredSchema] = field(default_factory=dict)
    #: Until when an id counts as unknown, in monotonic seconds.
    unknown: dict[int, float] = field(default_factory=dict)
    #: By subject and version, which never change either.
    versions: dict[tuple[str, int], Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_known: dict[Registry, _Known] = {}


class RegistryClient:
    """Asks a registry for schemas; cheap to build."""

    def __init__(self, registry: Registry) -> None:
        try:
            url = httpx.URL(registry.url.rstrip("/"))
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise InvalidConfig(
                "the URL of a schema registry is http://host:port or https://host, and a path"
            )
        self._registry = registry
        #: Without a name and a password that may stand in it, so that it can be shown.
        self.url = str(url.copy_with(username=None, password=None, query=None, fragment=None))
        self._auth = _auth(registry, url)
        # The proxy of the environment is for what is beyond this machine and its network.
        self._outside = url.scheme == "https" and not is_loopback(url.host)
        self._known = _known.setdefault(registry, _Known())

    def schema(self, schema_id: int) -> RegisteredSchema:
        """NotFound if the registry does not know the id, Unavailable if it does not answer."""
        known = self._known
        found = known.schemas.get(schema_id)
        if found is not None:
            return found
        with known.lock:
            if schema_id in known.schemas:
                return known.schemas[schema_id]
            if known.unknown.get(schema_id, 0.0) > time.monotonic():
                raise self._no_schema(schema_id)
            document = self._get(f"/schemas/ids/{schema_id}")
            if document is None:
                known.unknown[schema_id] = time.monotonic() + _UNKNOWN_SECONDS
                raise self._no_schema(schema_id)
            return known.schemas.setdefault(schema_id, self._registered(schema_id, document))

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, asked for at every call; NotFound if there is none."""
        document = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if document is None:
            raise NotFound(
                f"the schema registry at {self.url} has no subject '{subject}'; register a schema for it, or "
                "give the pipeline a `schema`"
            )
        with self._known.lock:
            found = self._registered(int(document["id"]), document)
            return self._known.schemas.setdefault(found.id, found)

    def _registered(self, schema_id: int, document: Any) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._resolve(document, references, set())
        # Left out, it is Avro.
        kind = cast("SchemaKind", document.get("schemaType", "AVRO"))
        return RegisteredSchema(schema_id, kind, document["schema"], references)

    def _resolve(self, document: Any, found: dict[str, str], open_names: set[str]) -> None:
        for reference in document.get("references") or ():
            name = reference["name"]
            if name in found or name in open_names:
                continue
            inner = self._version(reference["subject"], int(reference["version"]))
            self._resolve(inner, found, open_names | {name})
            found[name] = inner["schema"]

    def _version(self, subject: str, version: int) -> Any:
        known = self._known.versions.get((subject, version))
        if known is None:
            # One that was deleted is still needed by what refers to it.
            known = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
            if known is None:
                raise NotFound(
                    f"the schema registry at {self.url} has no version {version} of '{subject}', which "
                    "another schema refers to; register it again"
                )
            self._known.versions[subject, version] = known
        return known

    def _no_schema(self, schema_id: int) -> NotFound:
        return NotFound(
            f"the schema registry at {self.url} has no schema with id {schema_id}; the records come from a "
            "producer with another registry, or the schema was deleted"
        )

    def _get(self, path: str) -> Any:
        """The document; None if the registry says that there is no such thing."""
        pause = _FIRST_PAUSE
        problem = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries
                pause *= 2
            try:
                with self._http() as client:
                    answer = client.get(f"{self.url}{path}")
            except httpx.TransportError as error:
                problem = type(error).__name__
                continue
            if answer.status_code < 500 and answer.status_code not in _RETRIED:
                return self._document(answer)
            problem = f"status {answer.status_code}"
        raise Unavailable(
            f"the schema registry at {self.url} did not answer in {_ATTEMPTS} attempts (last: {problem}); "
            "check that it runs and can be reached from where the tasks run"
        )

    def _http(self) -> httpx.Client:
        return httpx.Client(
            auth=self._auth,
            headers={"Accept": _ACCEPT},
            timeout=_TIMEOUT,
            verify=_tls(),
            trust_env=self._outside,
        )

    def _document(self, answer: httpx.Response) -> Any:
        document = _json(answer)
        code = document.get("error_code") if isinstance(document, dict) else None
        if answer.status_code == 404 and code in _UNKNOWN_CODES:
            return None
        if answer.status_code == 401:
            raise Unauthenticated(
                f"the schema registry at {self.url} refused the credentials; check `username` and `password`"
            )
        if answer.status_code == 403:
            raise NotAllowed(f"the schema registry at {self.url} does not let this user read schemas")
        if answer.is_success and isinstance(document, dict) and isinstance(document.get("schema"), str):
            return document
        raise InvalidConfig(
            f"what answers at {self.url} (status {answer.status_code}) is no schema registry with "
            "Confluent's API; check the URL, path included"
        )


_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Reading the list of authorities takes long; one copy does for all."""
    return httpx.create_ssl_context()


def _auth(registry: Registry, url: httpx.URL) -> httpx.BasicAuth | None:
    if registry.username is not None:
        return httpx.BasicAuth(registry.username, registry.password or "")
    return httpx.BasicAuth(url.username, url.password) if url.username else None


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """The schema's id and what is behind the header; None if there is no header."""
    if len(value) < HEADER_BYTES or value[0]:
        return None
    return _HEADER.unpack_from(value)[1], value[HEADER_BYTES:]


def header_ids(values: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The schema ids of records; NO_VALUE and NO_HEADER where there is none."""
    count = len(values)
    found = np.full(count, NO_HEADER, np.int64)
    _, offset_buffer, data_buffer = values.buffers()
    if count and data_buffer is not None and data_buffer.size:
        offsets = np.frombuffer(offset_buffer, np.int32, count + 1, values.offset * 4).astype(np.int64)
        data = np.frombuffer(data_buffer, np.uint8)
        long = np.flatnonzero(np.diff(offsets) >= HEADER_BYTES)
        long = long[data[offsets[long]] == 0]
        starts = offsets[long]
        found[long] = 0
        for place in range(1, HEADER_BYTES):
            found[long] = found[long] << 8 | data[starts + place]
    if values.null_count:
        found[np.asarray(values.is_null())] = NO_VALUE
    return found
