"""Commands of frazil as users start them, in a directory of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from frazil.devstack.spawn import Command


def frazil_command(directory: Path, *arguments: str, java: str = "") -> Command:
    """One that tells its events as JSON. What Spark says is in spark.log; `java`: options of its JVM."""
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FRAZIL_", "PYSPARK_"))}
    environment |= {"TMPDIR": str(temporary), **({"JDK_JAVA_OPTIONS": java} if java else {})}
    command = [sys.executable, "-m", "frazil.cli", *arguments, "--json"]
    command += ["--spark-log", str(directory / "spark.log")]
    return Command(command, environment, directory)
