"""Storage profiles: Lakekeeper's JSON for `s3`, and `local`, which it does not have."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import force_setattr

from frazil.catalog.storage.credentials import Credential
from frazil.catalog.storage.layout import StorageLayout, check_layout_type
from frazil.catalog.storage.parsing import convert, require_object
from frazil.core.errors import InvalidInput

_FIELD = "storage-profile"
_FLAVORS = ("aws", "s3-compat")
_URL_STYLES = ("path", "virtual_host", "auto")
_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
_REGION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()=+@:,&$~ -]+")
_PREFIX_LIMIT = 512
_STS_SECONDS = (1, 43_200)


class S3Profile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="s3"):
    """An S3 bucket, or what speaks its protocol."""

    bucket: str
    region: str
    key_prefix: str | None = None
    endpoint: str | None = None
    flavor: str = "aws"
    path_style_access: bool = False
    allow_alternative_protocols: bool = False
    assume_role_arn: str | None = None
    aws_kms_key_arn: str | None = None
    legacy_md5_behavior: bool | None = None
    push_s3_delete_disabled: bool = True
    remote_signing_enabled: bool = True
    remote_signing_url_style: str = "auto"
    storage_layout: StorageLayout | None = None
    sts_enabled: bool = False
    sts_endpoint: str | None = None
    sts_role_arn: str | None = None
    sts_session_tags: dict[str, str] = {}
    sts_token_validity_seconds: int = 3600

    def __post_init__(self) -> None:
        if self.flavor == "minio":
            force_setattr(self, "flavor", "s3-compat")
        _check_choice("flavor", self.flavor, _FLAVORS)
        _check_choice("remote-signing-url-style", self.remote_signing_url_style, _URL_STYLES)
        check_bucket(self.bucket)
        if not _REGION.fullmatch(self.region):
            raise _wrong("region", self.region, "1 to 64 letters, digits, '-' or '_', such as eu-central-1")
        force_setattr(self, "key_prefix", check_key_prefix(self.key_prefix))
        force_setattr(self, "endpoint", check_url("endpoint", self.endpoint))
        force_setattr(self, "sts_endpoint", check_url("sts-endpoint", self.sts_endpoint))
        self._check_sts()

    def _check_sts(self) -> None:
        low, high = _STS_SECONDS
        if not low <= self.sts_token_validity_seconds <= high:
            raise _wrong("sts-token-validity-seconds", self.sts_token_validity_seconds, f"{low} to {high}")
        if self.sts_enabled and self.flavor == "aws" and not (self.sts_role_arn or self.assume_role_arn):
            raise InvalidInput(
                f"{_FIELD}.sts-role-arn: required when sts-enabled is true and flavor is aws "
                "(or give assume-role-arn)"
            )

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        return f"s3://{self.bucket}/{self.key_prefix}" if self.key_prefix else f"s3://{self.bucket}"

    @property
    def alternatives(self) -> bool:
        """Whether callers may spell locations with s3a:// and s3n://."""
        return self.allow_alternative_protocols


class LocalProfile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="local"):
    """A directory of the machine that the server and all its clients share."""

    path: str
    storage_layout: StorageLayout | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "path", check_local_path(self.path))

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        return f"file://{self.path}"

    @property
    def alternatives(self) -> bool:
        """There are none: every spelling of a local path is understood."""
        return False


Profile = S3Profile | LocalProfile

_KINDS: dict[str, type[S3Profile] | type[LocalProfile]] = {"s3": S3Profile, "local": LocalProfile}
_IMMUTABLE = {S3Profile: ("bucket", "key_prefix"), LocalProfile: ("path",)}


def parse_profile(raw: object) -> Profile:
    """Read a `storage-profile`, from a request or from the database."""
    given = require_object(raw, _FIELD)
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = "missing" if kind is None else f"{kind!r:.80} is unknown"
        raise InvalidInput(f"{_FIELD}.type: {shown}. Legal: {', '.join(_KINDS)}")
    try:
        check_layout_type(given)
        return convert(given, _KINDS[kind], _FIELD)
    except InvalidInput as error:
        raise _below_profile(error) from None


def encode_profile(profile: Profile) -> bytes:
    """The JSON that `parse_profile` reads back; it holds no secret."""
    return msgspec.json.encode(profile)


def profile_document(profile: Profile) -> Mapping[str, Any]:
    """The profile as builtins, for an answer."""
    document: dict[str, Any] = msgspec.to_builtins(profile)
    return document


def check_update(old: Profile, new: Profile) -> Profile:
    """The profile after an update: where the data lies cannot change."""
    if type(old) is not type(new):
        kinds = {kind: name for name, kind in _KINDS.items()}
        raise InvalidInput(f"{_FIELD}.type: cannot change from {kinds[type(old)]} to {kinds[type(new)]}")
    for name in _IMMUTABLE[type(old)]:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            field = name.replace("_", "-")
            raise InvalidInput(f"{_FIELD}.{field}: cannot change from {before!r} to {after!r}")
    return new


def check_pair(profile: Profile, credential: Credential | None) -> None:
    """Refuse a credential that does not go with the profile."""
    if isinstance(profile, LocalProfile) and credential is not None:
        raise InvalidInput("storage-credential: a local profile takes none")
    if isinstance(profile, S3Profile) and credential is None:
        raise InvalidInput("storage-credential: required for an s3 profile")


def check_bucket(bucket: str) -> None:
    """AWS's naming rules, which every S3-compatible store accepts too."""
    legal = "3 to 63 of a-z, 0-9, '.', '-', a letter or digit at both ends, no '..', not an IP address"
    if not _BUCKET.fullmatch(bucket) or ".." in bucket or _is_ip(bucket):
        raise _wrong("bucket", bucket, legal)


def check_key_prefix(prefix: str | None) -> str | None:
    """The prefix without outer slashes; none and empty are the same."""
    if prefix is None:
        return None
    plain = prefix.strip("/")
    if not plain:
        return None
    clean = all(s not in (".", "..") and _PREFIX_SEGMENT.fullmatch(s) for s in plain.split("/"))
    if len(plain) > _PREFIX_LIMIT or not clean:
        legal = (
            f"at most {_PREFIX_LIMIT} characters: segments of letters, digits and !_.*'()=+@:,&$~- "
            "separated by single slashes, none of them '.' or '..'"
        )
        raise _wrong("key-prefix", prefix, legal)
    return plain


def check_url(field: str, url: str | None) -> str | None:
    """An http(s) URL with nothing secret in it, without a trailing slash."""
    if url is None:
        return None
    legal = "an http:// or https:// URL with a host, without user, query or fragment"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _wrong(field, "(not a URL)", legal) from None
    # The value is not repeated when it may hold a password.
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise _wrong(field, "(hidden)", legal)
    printable = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not printable:
        raise _wrong(field, url, legal)
    return url.rstrip("/")


def check_local_path(path: str) -> str:
    """An absolute path with one reading only, without a trailing slash."""
    plain = path.rstrip("/")
    segments = plain.split("/")[1:]
    clean = all(s not in ("", ".", "..") and s.isprintable() and not set(s) & set("%?#\\") for s in segments)
    if not plain.startswith("/") or not clean or len(plain.encode("utf-8", "replace")) > _PREFIX_LIMIT:
        legal = (
            f"an absolute directory below /, at most {_PREFIX_LIMIT} bytes, without '.', '..' or empty "
            "segments, '%', '?', '#', backslashes and control characters"
        )
        raise _wrong("path", path, legal)
    return plain


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_choice(field: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise _wrong(field, value, ", ".join(legal))


def _wrong(field: str, value: object, legal: str) -> InvalidInput:
    return InvalidInput(f"{_FIELD}.{field}: {ascii(value)[:120]} is not legal. Legal: {legal}")


def _below_profile(error: InvalidInput) -> InvalidInput:
    """Layouts do not know which profile they are part of."""
    if error.message.startswith(_FIELD):
        return error
    return InvalidInput(f"{_FIELD}.{error.message}", kind=error.kind)
