"""A bucket, or a prefix in one. Objects appear whole, and their ETag is their version."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PreconditionError
from obstore.store import S3Store

from frazil.core.errors import FrazilError, InvalidConfig, InvalidInput, NotAllowed, NotFound, StorageError
from frazil.stream.files.found import FoundFile, changed, vanished
from frazil.stream.files.names import is_hidden

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import S3Credential as Keys

#: Iceberg's names of what a store needs, and where else each may come from.
_ENVIRONMENT = {
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_KEYS = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}
_SWITCHES = ("s3.path-style-access", "s3.anonymous")
_NAMES = (*_ENVIRONMENT, *_KEYS, *_SWITCHES)
_ALIASES = {"client.region": "s3.region", "region": "s3.region", "client.endpoint": "s3.endpoint"}
_RETRIES: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_PAGE = 1000
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")


def complete_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with what the environment adds: tasks run where that is another one.

    InvalidConfig: one that is not known, or half of a key.
    """
    found = {_ALIASES.get(name, name): value for name, value in settings.items()}
    if unknown := sorted(set(found) - set(_NAMES)):
        raise InvalidConfig(
            f"{', '.join(unknown)}: no setting of a bucket to read from. There are {', '.join(_NAMES)}"
        )
    for name, variables in _ENVIRONMENT.items():
        given = next((os.environ[each] for each in variables if os.environ.get(each)), None)
        if name not in found and given is not None:
            found[name] = given
    if found.get("s3.anonymous") != "true" and not any(name in found for name in _KEYS):
        found |= {name: os.environ[each] for name, each in _KEYS.items() if os.environ.get(each)}
    if ("s3.access-key-id" in found) != ("s3.secret-access-key" in found):
        raise InvalidConfig("s3.access-key-id and s3.secret-access-key are given together, or neither is")
    return found


class Bucket:
    """Objects below a prefix. `settings` are complete: without keys, the machine's own role is used."""

    def __init__(self, location: str, settings: Mapping[str, str]) -> None:
        self._scheme, _, rest = location.partition("://")
        self._bucket, _, prefix = rest.partition("/")
        if not self._bucket:
            raise InvalidConfig(f"'{location}' names no bucket: write s3://bucket/prefix")
        self._prefix = prefix.strip("/")
        self._secrets = tuple(settings[name] for name in _KEYS if settings.get(name))
        self._store = open_bucket(self._bucket, settings)

    def list(self) -> Iterator[FoundFile]:
        begin = len(self._prefix) + 1 if self._prefix else 0
        with self._failures(f"list {self._scheme}://{self._bucket}/{self._prefix}"):
            for page in obstore.list(self._store, self._prefix or None, chunk_size=_PAGE):
                for meta in page:
                    if meta["size"] and not any(map(is_hidden, meta["path"][begin:].split("/"))):
                        path = f"{self._scheme}://{self._bucket}/{meta['path']}"
                        yield FoundFile(path, version_of(meta), meta["size"], _micros(meta["last_modified"]))

    def open(self, path: str, version: str) -> Object:
        return Object(self, path, version)

    def is_settled(self, file: FoundFile, now: float) -> bool:
        return True

    def get(self, path: str, version: str, start: int, end: int) -> tuple[bytes, ObjectMeta]:
        key = path.removeprefix(f"{self._scheme}://{self._bucket}/")
        options: GetOptions = {"range": (start, end)}
        if not version.startswith("at "):
            options["if_match"] = version
        with self._failures(f"read {path}"):
            try:
                answer = obstore.get(self._store, key, options=options)
                data = bytes(answer.bytes())
            except FileNotFoundError:
                raise vanished(path) from None
            except PreconditionError:
                raise changed(path) from None
        # Not all stores know conditions.
        if version_of(answer.meta) != version or len(data) != end - start:
            raise changed(path)
        return data, answer.meta

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except InvalidPathError as error:
            found = _said(error)
            raise InvalidInput(
                f"{what}: an object has a name that cannot be read ({ascii(found)[:300]}). Rename or remove "
                "it, or let the location be a prefix without it"
            ) from None
        except (BaseError, OSError, ValueError) as error:
            raise self._meant(what, _said(error)) from None

    def _meant(self, what: str, text: str) -> FrazilError:
        status, code, message = (p.search(text) for p in (_STATUS, _CODE, _MESSAGE))
        said = " ".join(found[1] for found in (code, message) if found) or text.partition("\n")[0][:300]
        for secret in self._secrets:
            said = said.replace(secret, "…")
        if status and status[1] in ("401", "403"):
            return NotAllowed(
                f"{what}: the store refused it ({said}). Give keys that may list and read there "
                "(s3.access-key-id and s3.secret-access-key, or AWS_* in the environment)"
            )
        if code and code[1] == "NoSuchBucket":
            return NotFound(f"{what}: there is no bucket {self._bucket}")
        return StorageError(f"{what}: {said}")


class Object:
    """One version of an object."""

    def __init__(self, bucket: Bucket, path: str, version: str) -> None:
        self._bucket = bucket
        self._path = path
        self._version = version
        self.modified = 0
        self.size = 0

    def read(self, start: int, end: int) -> bytes:
        data, meta = self._bucket.get(self._path, self._version, start, end)
        self.modified, self.size = _micros(meta["last_modified"]), meta["size"]
        return data

    def close(self) -> None:
        """Nothing is held."""


def version_of(meta: ObjectMeta) -> str:
    """The ETag, or the time and size for a store that has none."""
    return meta["e_tag"] or f"at {_micros(meta['last_modified'])}-{meta['size']}"


def _said(error: Exception) -> str:
    return str(error).partition("\n\nDebug source")[0]


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def open_bucket(bucket: str, settings: Mapping[str, str]) -> S3Store:
    """A bucket by Iceberg's names of settings; nothing is contacted yet.

    obstore reads AWS_* variables wherever it is not told, and those of a task are not meant.
    """
    region = settings.get("s3.region", "us-east-1")
    config: S3Config = {"region": region, "skip_signature": settings.get("s3.anonymous") == "true"}
    client: ClientConfig = {"timeout": "60s", "connect_timeout": "10s"}
    if endpoint := settings.get("s3.endpoint", "").rstrip("/"):
        path_style = settings.get("s3.path-style-access", "true") == "true"
        if not path_style:
            scheme, _, host = endpoint.partition("://")
            endpoint = f"{scheme}://{bucket}.{host}"
        config |= {
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "virtual_hosted_style_request": not path_style,
        }
        client["allow_http"] = endpoint.startswith("http://")
    else:
        config["virtual_hosted_style_request"] = settings.get("s3.path-style-access") != "true"
    return S3Store(
        bucket,
        config=config,
        client_options=client,
        retry_config=_RETRIES,
        credential_provider=_provider(settings),
    )


def _provider(settings: Mapping[str, str]) -> Callable[[], Keys] | None:
    """A function, which no variable overrides; a session token of the environment belongs to other keys."""
    if "s3.access-key-id" not in settings:
        return None
    keys: Keys = {
        "access_key_id": settings["s3.access-key-id"],
        "secret_access_key": settings["s3.secret-access-key"],
        "token": settings.get("s3.session-token"),
        "expires_at": None,
    }
    return lambda: keys
