"""What the fields of a storage profile may hold."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from frazil.core.errors import InvalidInput

FIELD = "storage-profile"
_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
_GCS_BUCKET = re.compile(r"(?!goog)[a-z0-9](?:[a-z0-9._-]{1,220})[a-z0-9]")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_FILESYSTEM = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
# Tokens are sent to these, so they are Microsoft's: the public and the national clouds, and DNS zones.
_ADLS_HOSTS = (
    "dfs.core.windows.net",
    "dfs.core.usgovcloudapi.net",
    "dfs.core.chinacloudapi.cn",
    "z<number>.dfs.storage.azure.net",
)
_ADLS_ZONE = re.compile(r"z[0-9]{1,3}\.dfs\.storage\.azure\.net")
_AUTHORITIES = (
    "https://login.microsoftonline.com",
    "https://login.microsoftonline.us",
    "https://login.partner.microsoftonline.cn",
    "https://login.chinacloudapi.cn",
)
_PREFIX_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()=+@:,&$~ -]+")
_PREFIX_LIMIT = 512


def check_bucket(bucket: str) -> None:
    """AWS's naming rules, which every S3-compatible store accepts too."""
    legal = "3 to 63 of a-z, 0-9, '.', '-', a letter or digit at both ends, no '..', not an IP address"
    if not _BUCKET.fullmatch(bucket) or ".." in bucket or _is_ip(bucket):
        raise wrong("bucket", bucket, legal)


def check_gcs_bucket(bucket: str) -> None:
    """Google's naming rules."""
    legal = (
        "3 to 222 of a-z, 0-9, '.', '-', '_', a letter or digit at both ends, at most 63 between dots, "
        "not an IP address, not beginning with goog"
    )
    parts = bucket.split(".")
    if not _GCS_BUCKET.fullmatch(bucket) or _is_ip(bucket) or not all(1 <= len(part) <= 63 for part in parts):
        raise wrong("bucket", bucket, legal)


def check_gcs_endpoint(endpoint: str | None) -> str | None:
    """Tokens are sent to it, so over TLS it is Google's; without TLS it is an emulator and gets none."""
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    google = parts.hostname is not None and parts.hostname.endswith(".googleapis.com")
    if parts.path or (parts.scheme == "https" and not google):
        legal = "https://<name>.googleapis.com, or http:// and host of an emulator, which is sent no token"
        raise wrong("endpoint", endpoint, legal)
    return endpoint


def check_account(name: str) -> None:
    """The name of an Azure storage account."""
    if not _ACCOUNT.fullmatch(name):
        raise wrong("account-name", name, "3 to 24 of a-z, 0-9")


def check_filesystem(name: str) -> None:
    """The name of a file system, which is a blob container."""
    if not _FILESYSTEM.fullmatch(name):
        legal = "3 to 63 of a-z, 0-9, '-', a letter or digit at both ends and beside every '-'"
        raise wrong("filesystem", name, legal)


def check_adls_host(host: str) -> None:
    """Where Azure serves Data Lake Storage."""
    if host not in _ADLS_HOSTS[:-1] and not _ADLS_ZONE.fullmatch(host):
        raise wrong("host", host, ", ".join(_ADLS_HOSTS))


def check_authority_host(url: str) -> str:
    """Where Azure gives tokens: the client secret is sent there."""
    plain = url.rstrip("/")
    check_choice("authority-host", plain, _AUTHORITIES)
    return plain


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
        raise wrong("key-prefix", prefix, legal)
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
        raise wrong(field, "(not a URL)", legal) from None
    # The value is not repeated when it may hold a password.
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise wrong(field, "(hidden)", legal)
    printable = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not printable:
        raise wrong(field, url, legal)
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
        raise wrong("path", path, legal)
    return plain


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_choice(field: str, value: str, legal: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in legal:
        raise wrong(field, value, ", ".join(legal))


def wrong(field: str, value: object, legal: str) -> InvalidInput:
    """The error for a field whose value is not legal."""
    return InvalidInput(f"{FIELD}.{field}: {ascii(value)[:120]} is not legal. Legal: {legal}")
