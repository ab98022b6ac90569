"""The settings of the sensor example: the environment's, and those of `.env.local`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frazil.client.naming import levels
from frazil.core.errors import FrazilError, InvalidConfig
from frazil.core.names import check_name

ENV_FILE = ".env.local"
#: Who the caller is: one way or the other, and not half of it from here and half from there.
_IDENTITY = ("TOKEN", "OAUTH_TOKEN_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPE")
_OTHERS = (
    "LAKEKEEPER",
    "WAREHOUSE_ID",
    "NAMESPACE",
    "TABLE",
    "NUM_SENSORS",
    "NUM_RECORDS",
    "BATCH_SIZE",
    "BATCH_INTERVAL_MS",
)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(['"])(.*?)\1(?:\s+#.*)?""")
_REMARK = re.compile(r"(?:^|\s)#.*")
_MOST = 1_000_000
_DAY_MS = 86_400_000
_FOR_EVER = -1


@dataclass(frozen=True)
class Settings:
    """What the example does. Who it is, the client finds in the environment itself."""

    uri: str | None
    warehouse: str | None
    namespace: tuple[str, ...]
    table: str
    sensors: int
    #: None: for ever.
    records: int | None
    batch_size: int
    batch_interval_ms: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """InvalidConfig: a setting cannot be, and why."""
        records = _number(environment, "NUM_RECORDS", _FOR_EVER, 1, 2**53, _FOR_EVER)
        return cls(
            environment.get("LAKEKEEPER") or None,
            warehouse_named(environment),
            _named("NAMESPACE", environment, "iot"),
            _name("TABLE", environment, "sensor-readings"),
            _number(environment, "NUM_SENSORS", 5, 1, _MOST),
            None if records == _FOR_EVER else records,
            _number(environment, "BATCH_SIZE", 10, 1, _MOST),
            _number(environment, "BATCH_INTERVAL_MS", 15_000, 10, _DAY_MS),
        )


def read_settings(files: Sequence[Path], environment: MutableMapping[str, str] = os.environ) -> Settings:
    """The settings by the environment, completed by the first of the files that is there.

    What a file says of the identity is put into the environment, where the client looks for it.
    """
    given = next((_read(file) for file in files if file.is_file()), {})
    if any(environment.get(name) for name in _IDENTITY):
        given = {name: value for name, value in given.items() if name not in _IDENTITY}
    for name in (*_IDENTITY, *_OTHERS):
        if given.get(name) and not environment.get(name):
            environment[name] = given[name]
    return Settings.of(environment)


def warehouse_named(environment: Mapping[str, str]) -> str | None:
    """By id or name: the examples' own variable, else that of all commands."""
    return environment.get("WAREHOUSE_ID") or environment.get("FRAZIL_WAREHOUSE") or None


def _read(file: Path) -> dict[str, str]:
    """What a line says is not repeated: it may be a secret."""
    found = {}
    try:
        # Some editors put a mark before the first line.
        lines = file.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file} cannot be read: {error.__class__.__name__}") from None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise InvalidConfig(f"{file}, line {number}: write NAME=value, or # for a remark")
        found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    """Without quotes, and without a remark behind it; in quotes a # is a part of it."""
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted else _REMARK.sub("", text).strip()


def _number(
    environment: Mapping[str, str], name: str, usual: int, least: int, most: int, also: int | None = None
) -> int:
    text = (environment.get(name) or str(usual)).strip()
    found = int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
    if found is None or not (least <= found <= most or found == also):
        for_ever = "" if also is None else f", or {also} for no end"
        raise InvalidConfig(f"{name} is {text!r}; legal: a whole number from {least} to {most}{for_ever}")
    return found


def _named(name: str, environment: Mapping[str, str], usual: str) -> tuple[str, ...]:
    try:
        return levels(environment.get(name) or usual)
    except FrazilError as error:
        raise InvalidConfig(f"{name}: {error.message}") from None


def _name(name: str, environment: Mapping[str, str], usual: str) -> str:
    try:
        return check_name(environment.get(name) or usual, "the name of the table")
    except FrazilError as error:
        raise InvalidConfig(f"{name}: {error.message}") from None
