"""Pipelines on a cluster: the settings Spark needs for it, and the same as a command of `spark-submit`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from frazil.core.cache import cache_dir
from frazil.core.errors import InvalidInput
from frazil.lake.session import is_secret, session_jars
from frazil.stream.config.model import AvroFormat, Pipelines, ProtobufFormat
from frazil.stream.packing import Packed, pack, python_tag

Mode: TypeAlias = Literal["client", "cluster"]
Manager: TypeAlias = Literal["standalone", "yarn", "kubernetes"]

#: Folders of the archives in the working folder of an executor; code first.
_PACKAGES, _CODE = "packages", "code"
_PYTHON_PATH = f"{_CODE}:{_PACKAGES}"
_MAIN = "from frazil.cli import main\n\nmain()\n"
_MASTERS = "spark://HOST:PORT, yarn, or k8s://https://HOST:PORT"


@dataclass(frozen=True)
class Submission:
    """Where pipelines run, and with what."""

    manager: Manager
    master: str
    mode: Mode
    packed: Packed
    #: Of Spark: what the cluster needs, then the file's, then the caller's. Values may be secrets.
    settings: Mapping[str, str] = field(repr=False)
    #: Instead of a session of this process.
    command: tuple[str, ...]
    #: Settings that are left out of the command, because everybody may read those.
    withheld: tuple[str, ...]


def prepare(
    pipelines: Pipelines,
    file: Path,
    *,
    master: str | None = None,
    mode: Mode = "client",
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Submission:
    """Pack what executors need, and say how Spark is told. `arguments` are those of `frazil run` behind FILE.

    Nothing is started. InvalidInput for what Spark cannot do there.
    """
    master = master or pipelines.spark.master
    manager = manager_of(master)
    own = {**pipelines.spark.settings, **(settings or {})}
    _require(manager, mode, own)
    if mode == "cluster":
        _require_all_in_file(pipelines)
    packed = pack(file.absolute().parent if _has_functions(pipelines) else None)
    ours = _cluster_settings(manager, mode, packed)
    # What the caller adds to a list does not take ours away: executors would be without frazil.
    beside = {key: f"{ours[key]}{_between(key)}{own[key]}" for key in ours if key in own and _between(key)}
    wanted = {**ours, **own, **beside}
    command = _command(master, mode, wanted, file, arguments, s3a=pipelines.needs_s3a)
    withheld = tuple(sorted(key for key in wanted if is_secret(key)))
    return Submission(manager, master, mode, packed, wanted, command, withheld)


def manager_of(master: str) -> Manager:
    """Who runs executors there; InvalidInput for a Spark on this machine, which needs no packing."""
    if master.startswith("spark://"):
        return "standalone"
    if master == "yarn":
        return "yarn"
    if re.match(r"k8s://.", master):
        return "kubernetes"
    raise InvalidInput(f"'{master}' is no cluster; say which with --master: {_MASTERS}. Here: frazil run")


def _require(manager: Manager, mode: Mode, settings: Mapping[str, str]) -> None:
    if manager == "standalone" and mode == "cluster":
        raise InvalidInput(
            "Spark runs no Python driver on a standalone cluster: use --deploy-mode client, on a machine "
            "that the workers can reach"
        )
    needed = {"spark.kubernetes.container.image": "an image with Spark 4.1 and " + python_tag()}
    if mode == "cluster":
        needed["spark.kubernetes.file.upload.path"] = "a place for the archives, such as s3a://bucket/spark"
    missing = [f"{key} ({about})" for key, about in needed.items() if key not in settings]
    if manager == "kubernetes" and missing:
        raise InvalidInput(f"Kubernetes needs {' and '.join(missing)}: give it with --conf KEY=VALUE")


def _require_all_in_file(pipelines: Pipelines) -> None:
    """The driver gets the file of pipelines, and no other that this one names."""
    for pipeline in pipelines.pipelines:
        match pipeline.format:
            case AvroFormat(schema=str()):
                key = "schema_file"
            case ProtobufFormat(descriptors=bytes()):
                key = "descriptor_file"
            case _:
                continue
        raise InvalidInput(
            f"pipeline '{pipeline.name}' has a {key}, which a driver on the cluster does not see: use a "
            "schema registry, or --deploy-mode client"
        )


def _cluster_settings(manager: Manager, mode: Mode, packed: Packed) -> dict[str, str]:
    found = {
        "spark.archives": f"{packed.packages}#{_PACKAGES},{packed.code}#{_CODE}",
        "spark.executorEnv.PYTHONPATH": _PYTHON_PATH,
        "spark.pyspark.python": python_tag(),
        # Broadcasts hold the keys of Kafka and of the tables: on the wire, and on executors' disks.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    }
    if mode == "cluster":
        driver = "spark.yarn.appMasterEnv" if manager == "yarn" else "spark.kubernetes.driverEnv"
        found[f"{driver}.PYTHONPATH"] = _PYTHON_PATH
    return found


def _between(key: str) -> str:
    """What parts the entries of a setting that is a list; nothing for others."""
    return "," if key == "spark.archives" else ":" if key.endswith(".PYTHONPATH") else ""


def _command(
    master: str,
    mode: Mode,
    settings: Mapping[str, str],
    file: Path,
    arguments: Sequence[str],
    *,
    s3a: bool,
) -> tuple[str, ...]:
    main = cache_dir("submit") / "frazil_main.py"
    main.write_text(_MAIN)
    command = ["spark-submit", "--master", master, "--deploy-mode", mode, "--name", "frazil"]
    command += ["--jars", ",".join(map(str, session_jars(s3a=s3a)))]
    if mode == "client":
        # This Python has all packages; the one that executors have, has none.
        command += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    # Where the driver runs on the cluster, the file is in its working folder.
    place = str(file)
    if mode == "cluster":
        command += ["--files", str(file.absolute())]
        place = file.name
    for key, value in sorted(settings.items()):
        if not is_secret(key):
            command += ["--conf", f"{key}={value}"]
    return (*command, str(main), "run", place, *arguments)


def _has_functions(pipelines: Pipelines) -> bool:
    return any(
        pipeline.transform is not None and pipeline.transform.function is not None
        for pipeline in pipelines.pipelines
    )
