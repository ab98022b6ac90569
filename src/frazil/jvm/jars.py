"""Java libraries, fetched once into the cache directory by the Ivy that pyspark ships.

A set is the full list of its jars with their SHA-256 sums, in `locks/<set>.txt`; Ivy is asked for
exactly those. `python tools/lock_jars.py` writes the lists.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path
from xml.sax.saxutils import quoteattr

from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError
from frazil.jvm.java import java_command
from frazil.jvm.maven import Artifact, mirror, proxy_options

SPARK_ICEBERG = "spark-iceberg"
HADOOP_S3A = "hadoop-s3a"
RCK = "rck"
KEYCLOAK = "keycloak"
KAFKA = "kafka"
SPARK_KAFKA = "spark-kafka"
FLINK = "flink"
APICURIO = "apicurio"
KAFKA_CONNECT = "kafka-connect"
DEBEZIUM = "debezium"
AVRO_CONVERTER = "avro-converter"

_IVY = "ivy-2.5.3.jar"
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True)
class Dependency:
    """A module to resolve, the classifiers wanted of it ("" is the plain jar), what not to follow."""

    group: str
    name: str
    version: str
    classifiers: tuple[str, ...] = ("",)
    transitive: bool = False
    exclusions: tuple[str, ...] = ()
    extension: str = "jar"


def jars(name: str) -> list[Path]:
    """The jars of a named set, downloaded and verified the first time."""
    pins = _pins(name)
    digest = hashlib.sha256("\n".join(f"{a} {sha}" for a, sha in pins.items()).encode()).hexdigest()
    directory = cache_dir("jars", f"{name}-{digest[:16]}")
    complete = directory / ".complete"
    if not complete.is_file():
        with exclusive(directory.parent / f"{directory.name}.lock"):
            if not complete.is_file():
                progress(f"downloading {len(pins)} jars of the set {name} to {directory} (once)")
                fetch(_modules(pins), directory)
                _verify(pins, directory)
                complete.touch()
    return [directory / artifact.file_name for artifact in pins]


def classpath(name: str) -> str:
    """The jars of a named set as a Java class path."""
    return ":".join(str(jar) for jar in jars(name))


def fetch(dependencies: Iterable[Dependency], directory: Path) -> None:
    """Resolve with Ivy and copy the jars into `directory`."""
    with tempfile.TemporaryDirectory(prefix="frazil-ivy-") as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_module(dependencies))
        settings = Path(scratch, "ivysettings.xml")
        settings.write_text(_settings())
        command = java_command(*proxy_options(), "-jar", str(_ivy_jar()), "-settings", str(settings))
        command += [
            "-ivy",
            str(module),
            "-confs",
            "default",
            "-types",
            "jar",
            "bundle",
            "zip",
            "tar.gz",
            "-cache",
            str(cache_dir("ivy")),
        ]
        command += ["-retrieve", str(directory / _PATTERN), "-overwriteMode", "different"]
        with exclusive(cache_dir("ivy") / ".frazil.lock"):
            answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
    if answer.returncode != 0:
        raise ServiceError(
            "some jars could not be downloaded. Check the network; a mirror or proxy is taken from "
            "~/.m2/settings.xml or https_proxy. The end of Ivy's output:\n"
            f"{_tail(answer.stdout + answer.stderr)}"
        )


def _pins(name: str) -> dict[Artifact, str]:
    text = resources.files("frazil.jvm").joinpath("locks", f"{name}.txt").read_text()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {Artifact.parse(coordinate): sha for coordinate, sha in rows}


def _modules(artifacts: Iterable[Artifact]) -> list[Dependency]:
    """Ivy wants each module once, with all the artifacts that are wanted of it."""
    classifiers: dict[tuple[str, str, str, str], list[str]] = {}
    for artifact in artifacts:
        key = (artifact.group, artifact.name, artifact.version, artifact.extension)
        classifiers.setdefault(key, []).append(artifact.classifier)
    return [
        Dependency(group, name, version, tuple(found), extension=extension)
        for (group, name, version, extension), found in classifiers.items()
    ]


def _verify(pins: Mapping[Artifact, str], directory: Path) -> None:
    for artifact, expected in pins.items():
        path = directory / artifact.file_name
        if not path.is_file():
            raise ServiceError(
                f"{artifact} was not downloaded to {directory}; remove that directory and try again"
            )
        with path.open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        if found != expected:
            shutil.rmtree(directory)
            raise ServiceError(
                f"{artifact} has SHA-256 {found}, expected {expected}; it was not used. "
                "Find out why the repository or mirror serves another file."
            )


def _module(dependencies: Iterable[Dependency]) -> str:
    rows = [_dependency_xml(dependency) for dependency in dependencies]
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="frazil" module="jars" revision="1"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )


def _dependency_xml(dependency: Dependency) -> str:
    name = quoteattr(dependency.name)
    conf = "default" if dependency.transitive else "master"
    kind = quoteattr(dependency.extension)
    wanted = "".join(
        f"<artifact name={name} type={kind} ext={kind}"
        + (f" m:classifier={quoteattr(classifier)}/>" if classifier else "/>")
        for classifier in dependency.classifiers
    )
    excluded = "".join(
        f"<exclude org={quoteattr(group)} module={quoteattr(module)}/>"
        for group, _, module in (text.partition(":") for text in dependency.exclusions)
    )
    return (
        f"<dependency org={quoteattr(dependency.group)} name={name} rev={quoteattr(dependency.version)} "
        f'transitive="{str(dependency.transitive).lower()}" conf="default-&gt;{conf}">'
        f"{wanted}{excluded}</dependency>"
    )


def _settings() -> str:
    root = f" root={quoteattr(address)}" if (address := mirror()) else ""
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        f'<resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers></ivysettings>'
    )


def _ivy_jar() -> Path:
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServiceError("pyspark is not installed, and Ivy comes with it: pip install 'frazil[spark]'")
    return Path(spec.origin).parent / "jars" / _IVY


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.splitlines()[-lines:])
