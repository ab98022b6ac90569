"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

from frazil import __version__
from frazil.devstack import flink
from frazil.jvm.jars import FLINK, SPARK_ICEBERG, jars
from frazil.jvm.java import find_java


def surroundings(*, with_flink: bool = True) -> dict[str, str]:
    """Versions and the shape of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "frazil": __version__,
        "Spark": f"{version('pyspark')}, {_iceberg(SPARK_ICEBERG)}, Java {find_java().version}",
        **({"Flink": f"{flink.VERSION}, {_iceberg(FLINK)}"} if with_flink else {}),
        "Python": f"{platform.python_version()}, pyarrow {version('pyarrow')}",
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
    }


def _iceberg(name: str) -> str:
    return next(jar.stem for jar in jars(name) if "runtime" in jar.name and jar.name.startswith("iceberg"))
