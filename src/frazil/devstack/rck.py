"""Iceberg's REST Compatibility Kit, run against any catalog."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from frazil.core.errors import ServiceError
from frazil.devstack.reference import JVM_OPENS
from frazil.jvm.jars import RCK, classpath
from frazil.jvm.java import java_command

_PACKAGE = "org.apache.iceberg.rest"
_CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    ABORTED = "aborted"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class RckTest:
    """One test of the kit: `Class.method`, what became of it, and why."""

    name: str
    verdict: Verdict
    reason: str = ""
    seconds: float = 0


@dataclass(frozen=True)
class RckResult:
    """What a run of the kit found."""

    tests: tuple[RckTest, ...]
    output: str

    def count(self, verdict: Verdict) -> int:
        return Counter(test.verdict for test in self.tests)[verdict]

    @property
    def passed(self) -> int:
        return self.count(Verdict.PASSED)

    @property
    def failed(self) -> int:
        return self.count(Verdict.FAILED)

    @property
    def aborted(self) -> int:
        return self.count(Verdict.ABORTED)

    @property
    def skipped(self) -> int:
        return self.count(Verdict.SKIPPED)

    @property
    def started(self) -> int:
        return len(self.tests) - self.skipped

    def reasons(self, verdict: Verdict) -> dict[str, str]:
        return {test.name: test.reason for test in self.tests if test.verdict is verdict}


def run_rck(
    uri: str,
    warehouse: str | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    seconds: float = 900,
    methods: tuple[str, ...] = (),
) -> RckResult:
    """Run the kit against the catalog at `uri`, which must hold none of the kit's namespaces.

    `properties` are settings of the kit (`rck.…`) or of Iceberg's REST client; `methods`, each
    `Class#method`, run a part only.

    >>> run_rck("http://127.0.0.1:8181/catalog", "demo").failed  # doctest: +SKIP
    0
    """
    with tempfile.TemporaryDirectory(prefix="frazil-rck-") as scratch:
        command = _command(uri, warehouse, dict(properties or {}), methods, Path(scratch))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CATALOG_")}
        try:
            answer = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                cwd=scratch,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise ServiceError(f"the compatibility kit did not end within {seconds:g} s") from late
        tests = tuple(
            test for path in sorted(Path(scratch).glob("TEST-*.xml")) for test in parse_report(path)
        )
    result = RckResult(tests, answer.stdout)
    _refuse_an_empty_run(result)
    return result


def _command(
    uri: str, warehouse: str | None, properties: dict[str, str], methods: tuple[str, ...], reports: Path
) -> list[str]:
    # The catalog class inherits "does not require a namespace", although the kit's own page says
    # the opposite; without the setting every server that enforces namespaces fails about 75 tests.
    settings = {"rck.local": "false", "rck.requires-namespace-create": "true", "uri": uri}
    if warehouse is not None:
        settings["warehouse"] = warehouse
    settings |= properties
    if methods:
        selected = [f"--select-method={_PACKAGE}.{method}" for method in methods]
    else:
        selected = [f"--select-class={_PACKAGE}.{name}" for name in _CLASSES]
    return java_command(
        *JVM_OPENS,
        "-Xmx1g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *(f"-D{key}={value}" for key, value in settings.items()),
        "-cp",
        classpath(RCK),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        *selected,
        "--details=tree",
        "--disable-banner",
        "--disable-ansi-colors",
        f"--reports-dir={reports}",
    )


def _refuse_an_empty_run(result: RckResult) -> None:
    """Left-over namespaces abort both classes before any test, which reads as "0 tests failed"."""
    if result.started == 0 or re.search(r"\[ +0 tests started", result.output):
        raise ServiceError(
            "the compatibility kit started no test. Use a catalog without the namespaces ns, newdb, "
            f"ns1, ns2 and other_ns. The end of its output:\n{_tail(result.output)}"
        )


def parse_report(path: Path) -> list[RckTest]:
    """The tests in one JUnit XML report."""
    root = ET.parse(path).getroot()  # noqa: S314 - written by the process just run
    return [_test(case) for case in root.iter("testcase")]


def _test(case: ET.Element) -> RckTest:
    name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').removesuffix('()')}"
    seconds = float(case.get("time", "0"))
    if (problem := case.find("failure")) is None:
        problem = case.find("error")
    if problem is not None:
        return RckTest(name, Verdict.FAILED, _reason(problem), seconds)
    if (skipped := case.find("skipped")) is not None:
        reason = _reason(skipped)
        # The report has one element for both; an abort is the one that carries an exception.
        aborted = "TestAbortedException" in (skipped.text or "") or "AssumptionViolated" in (
            skipped.text or ""
        )
        return RckTest(name, Verdict.ABORTED if aborted else Verdict.SKIPPED, reason, seconds)
    return RckTest(name, Verdict.PASSED, "", seconds)


def _reason(element: ET.Element) -> str:
    """The message without the exception's name and without the stack."""
    lines = (element.get("message") or element.text or "").splitlines()
    message = itertools.takewhile(lambda line: not line.startswith("\tat "), lines)
    return " ".join(" ".join(message).split()).removeprefix("org.opentest4j.TestAbortedException: ")


def _tail(text: str, lines: int = 40) -> str:
    return "\n".join(text.splitlines()[-lines:])
