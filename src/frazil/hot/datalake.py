"""The catalog as a configuration of Fluss names it: `datalake.format`, `datalake.iceberg.*`.

The keys of `datalake.iceberg.` are the properties of an Iceberg REST catalog. Those that say where it is and
who asks become settings of frazil's client; all others go to Iceberg's own catalog in Spark as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.client.address import server_uri
from frazil.client.auth import ClientCredentials
from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.stream.config.model import CatalogConfig

PREFIX = "datalake."
_ICEBERG = "datalake.iceberg."
_BEARER = re.compile(r"\s*Bearer\s+(\S+)\s*", re.IGNORECASE)
_HEADER = "header."
#: Of the catalog, not of the files: what is left goes on to Iceberg.
_TAKEN = ("type", "catalog-impl", "uri", "warehouse", "token", "credential", "oauth2-server-uri", "scope")
_REST = "org.apache.iceberg.rest.RESTCatalog"


@dataclass(frozen=True)
class Datalake:
    """What those keys say. Values are secrets where they could be."""

    catalog: CatalogConfig = field(default_factory=CatalogConfig)
    oauth: ClientCredentials | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Properties of Iceberg's catalog that frazil's own client has no use for.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_datalake(given: Mapping[str, str]) -> Datalake:
    """Of flat keys (`datalake.iceberg.uri`); InvalidConfig begins with the key that is wrong.

    >>> read_datalake({"datalake.iceberg.uri": "http://localhost:8181/catalog"}).catalog.uri
    'http://localhost:8181'
    """
    if given.get("datalake.format", "iceberg").lower() != "iceberg":
        raise InvalidConfig(f"datalake.format: '{given['datalake.format']}' is not legal; legal: iceberg")
    foreign = [name for name in given if not name.startswith(_ICEBERG)]
    for name in foreign:
        if name not in ("datalake.format", "datalake.enabled"):
            raise InvalidConfig(f"{name}: unknown; legal: datalake.format, datalake.iceberg.*")
    iceberg = {name.removeprefix(_ICEBERG): value for name, value in given.items() if name not in foreign}
    _check_kind(iceberg)
    headers = {
        name.removeprefix(_HEADER): value for name, value in iceberg.items() if name.startswith(_HEADER)
    }
    token = _token(iceberg, headers)
    catalog = CatalogConfig(uri=_uri(iceberg.get("uri")), warehouse=iceberg.get("warehouse"), token=token)
    rest = {
        name: value for name, value in iceberg.items() if name not in _TAKEN and not name.startswith(_HEADER)
    }
    return Datalake(catalog, _oauth(iceberg, token), headers, rest)


def _check_kind(iceberg: Mapping[str, str]) -> None:
    if iceberg.get("type", "rest").lower() != "rest":
        raise InvalidConfig(
            f"{_ICEBERG}type: '{iceberg['type']}' is not legal; legal: rest. Other catalogs have no server "
            "that commits could be decided by; `frazil serve` is one"
        )
    if iceberg.get("catalog-impl", _REST) != _REST:
        raise InvalidConfig(f"{_ICEBERG}catalog-impl: legal is {_REST} alone, or datalake.iceberg.type: rest")


def _uri(text: str | None) -> str | None:
    try:
        return None if text is None else server_uri(text)
    except InvalidInput as error:
        raise InvalidConfig(f"{_ICEBERG}uri: {error.message}") from None


def _token(iceberg: Mapping[str, str], headers: dict[str, str]) -> str | None:
    """Taken out of the headers: the client makes that header itself."""
    name = next((one for one in headers if one.lower() == "authorization"), None)
    if name is None:
        return iceberg.get("token")
    match = _BEARER.fullmatch(headers.pop(name))
    if match is None:
        raise InvalidConfig(
            f"{_ICEBERG}{_HEADER}{name}: legal is 'Bearer' and a token (what was given is not shown)"
        )
    if "token" in iceberg:
        raise InvalidConfig(f"{_ICEBERG}token: there is a token in {_HEADER}{name} already; leave one out")
    return match[1]


def _oauth(iceberg: Mapping[str, str], token: str | None) -> ClientCredentials | None:
    written = iceberg.get("credential")
    if written is None or token is not None:
        return None
    client_id, colon, secret = written.partition(":")
    if not colon or not client_id or not secret:
        raise InvalidConfig(f"{_ICEBERG}credential: legal is id:secret (what was given is not shown)")
    try:
        return ClientCredentials(client_id, secret, iceberg.get("oauth2-server-uri"), iceberg.get("scope"))
    except InvalidInput as error:
        raise InvalidConfig(f"{_ICEBERG}oauth2-server-uri: {error.message}") from None
