"""The guard that the settings ask for."""

from __future__ import annotations

import logging
import re

from frazil.catalog.db import Database
from frazil.catalog.identity.access_tokens import AccessTokens
from frazil.catalog.identity.clients import Clients
from frazil.catalog.identity.discovery import trustworthy
from frazil.catalog.identity.guard import Guard
from frazil.catalog.identity.oidc import Provider, ProviderSettings
from frazil.catalog.secrets import SecretBox
from frazil.catalog.settings import ServerSettings
from frazil.catalog.store import projects
from frazil.core.errors import InvalidConfig

#: What the only provider, or the one without a name, is called.
_DEFAULT_NAME = "oidc"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_TAKEN = frozenset({"anonymous", "client", "static"})
_UNGUARDED = (
    "refusing to listen on {host} without authentication: whoever reaches the port could do anything. Set "
    "up one of: an identity provider (--openid-provider-uri), clients with secrets (frazil client create "
    "NAME), a static token (FRAZIL_BOOTSTRAP_TOKEN). If something in front of the server decides who may "
    "pass, say --insecure"
)

_log = logging.getLogger(__name__)


async def open_guard(settings: ServerSettings, database: Database, secrets: SecretBox) -> Guard:
    """Who may ask; InvalidConfig if that would be everybody on a network."""
    providers = provider_settings(settings)
    server = await projects.server(database)
    key = secrets.derived(b"access tokens")
    clients = Clients(database, AccessTokens(key, server.server_id, settings.clock_skew_seconds))
    guard = Guard(
        clients,
        providers=[Provider(provider) for provider in providers],
        bootstrap_token=settings.bootstrap_token,
    )
    try:
        await guard.look_for_clients()
        if not guard.on and not settings.on_loopback:
            if not settings.insecure:
                raise InvalidConfig(_UNGUARDED.format(host=settings.host))
            _log.warning("there is no authentication: whoever reaches %s may do anything", settings.host)
    except BaseException:
        await guard.close()
        raise
    if providers and not settings.openid_audience:
        _log.warning(
            "openid-audience is not set: a token that the identity provider issued for any other service "
            "is accepted here too"
        )
    return guard


def provider_settings(settings: ServerSettings) -> list[ProviderSettings]:
    """The providers named in the settings: `URI` or `name=URI`, separated by commas."""
    providers: dict[str, str] = {}
    for name, uri in _named(settings.openid_provider_uri):
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise InvalidConfig(
                f"openid-provider-uri: {name[:80]!r} cannot name a provider; use a-z, 0-9 and '-'"
            )
        if name in providers:
            raise InvalidConfig(
                f"openid-provider-uri: there are two providers {name!r}; give each a name: a=https://…,b=https://…"
            )
        if not trustworthy(uri) or "?" in uri:
            raise InvalidConfig(
                f"openid-provider-uri: {uri[:200]!r} is not an https address (http only on this machine)"
            )
        providers[name] = uri
    if not providers:
        _refuse_strays(settings)
        return []
    issuers: dict[str, set[str]] = {name: set() for name in providers}
    for name, issuer in _named(settings.openid_additional_issuers):
        if name not in issuers:
            raise InvalidConfig(f"openid-additional-issuers: there is no provider {name!r}")
        issuers[name].add(issuer)
    return [
        ProviderSettings(
            name,
            uri,
            frozenset(issuers[name]),
            tuple(_listed(settings.openid_audience)),
            tuple(_listed(settings.openid_subject_claim)),
            settings.clock_skew_seconds,
        )
        for name, uri in providers.items()
    ]


def _refuse_strays(settings: ServerSettings) -> None:
    for name in ("openid_audience", "openid_additional_issuers"):
        if getattr(settings, name):
            flag = name.replace("_", "-")
            raise InvalidConfig(f"{flag} is set and openid-provider-uri is not: nothing would be checked")


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _named(text: str | None) -> list[tuple[str, str]]:
    found = []
    for part in _listed(text):
        name, given, value = part.partition("=")
        # An address may hold a "=" of its own; what stands before the name's is no address.
        named = bool(given) and ":" not in name
        found.append((name.strip(), value.strip()) if named else (_DEFAULT_NAME, part))
    return found
