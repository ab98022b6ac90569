"""Maven coordinates, and the user's own Maven configuration as Ivy needs it."""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from xml.etree import ElementTree as ET

from frazil.core.errors import ServiceError


@dataclass(frozen=True, order=True)
class Artifact:
    """One file: `group:name:version` or `group:name:version:classifier`, and `@zip` if it is not a jar."""

    group: str
    name: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @classmethod
    def parse(cls, text: str) -> Self:
        coordinate, _, extension = text.partition("@")
        parts = coordinate.split(":")
        if len(parts) not in (3, 4) or not all(parts):
            raise ServiceError(f"'{text}' is not group:name:version or group:name:version:classifier")
        group, name, version, *classifier = parts
        return cls(group, name, version, "".join(classifier), extension or "jar")

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.extension}"

    def __str__(self) -> str:
        extension = "" if self.extension == "jar" else f"@{self.extension}"
        return ":".join(filter(None, (self.group, self.name, self.version, self.classifier))) + extension


def mirror() -> str | None:
    """The mirror of Maven Central that the user's `~/.m2/settings.xml` names, if any."""
    for entry in _settings("mirrors/mirror"):
        covered = {name.strip() for name in (entry.findtext("mirrorOf") or "").split(",")}
        if covered & {"*", "central", "external:*"} and "!central" not in covered:
            return entry.findtext("url")
    return None


def proxy_options() -> list[str]:
    """JVM options for the proxy that `~/.m2/settings.xml` or the environment names, if any."""
    for entry in _settings("proxies/proxy"):
        if (entry.findtext("active") or "true") == "true" and (host := entry.findtext("host")):
            return _proxy(host, entry.findtext("port") or "80", entry.findtext("nonProxyHosts") or "")
    address = urllib.request.getproxies().get("https", "")
    parsed = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
    if not parsed.hostname:
        return []
    direct = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    hosts = "|".join(
        f"*{name.strip()}" if name.strip().startswith(".") else name.strip() for name in direct if name
    )
    return _proxy(parsed.hostname, str(parsed.port or 80), hosts)


def _proxy(host: str, port: str, direct: str) -> list[str]:
    options = [
        f"-D{scheme}.proxy{key}" for scheme in ("http", "https") for key in (f"Host={host}", f"Port={port}")
    ]
    return [*options, f"-Dhttp.nonProxyHosts={direct}"] if direct else options


def _settings(path: str) -> list[ET.Element]:
    file = Path.home() / ".m2" / "settings.xml"
    try:
        root = ET.parse(file).getroot()  # noqa: S314 - the user's own file
    except (OSError, ET.ParseError):
        return []
    # Some files declare Maven's namespace and some do not.
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root.findall(path)
