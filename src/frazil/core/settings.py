"""Settings from flags, environment and a TOML file, each value knowing where it came from.

A group of settings is a frozen dataclass whose fields are made with `setting`. A flag wins over the
environment, the environment over the file, the file over the default.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from frazil.core.errors import InvalidConfig

T = TypeVar("T")
_BOOLEANS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


def setting(default: Any, about: str, *, mask: Callable[[str], str] | None = None, flag: bool = True) -> Any:
    """A field of a settings dataclass; `mask` makes a secret value fit to be shown.

    A setting that is a secret as a whole has no `flag`: command lines are public.
    """
    return field(default=default, repr=mask is None, metadata={"about": about, "mask": mask, "flag": flag})


@dataclass(frozen=True)
class Resolved(Generic[T]):
    """Settings in force, and the origin of each."""

    values: T
    origins: Mapping[str, str]

    def shown(self) -> list[tuple[str, str, str]]:
        """Name, value (secrets masked) and origin of every setting."""
        rows = []
        for spec in dataclasses.fields(self.values):  # type: ignore[arg-type]
            value = getattr(self.values, spec.name)
            mask = spec.metadata["mask"]
            text = "" if value is None else mask(str(value)) if mask else str(value)
            rows.append((_dashed(spec.name), text, self.origins[spec.name]))
        return rows


def resolve(
    group: type[T],
    *,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Path | None,
    prefix: str = "FRAZIL_",
) -> Resolved[T]:
    """Fill `group` from its sources; InvalidConfig names the source of a wrong value."""
    from_file = _read_toml(file) if file else {}
    specs = {spec.name: spec for spec in dataclasses.fields(group)}  # type: ignore[arg-type]
    unknown = sorted(set(from_file) - {_dashed(name) for name in specs})
    if unknown:
        legal = ", ".join(_dashed(name) for name in specs)
        raise InvalidConfig(f"{file}: unknown setting {unknown[0]!r}; legal are {legal}")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, spec in specs.items():
        variable = prefix + name.upper()
        if flags.get(name) is not None:
            values[name], origins[name] = flags[name], f"flag --{_dashed(name)}"
        elif variable in environment:
            values[name], origins[name] = environment[variable], f"environment {variable}"
        elif _dashed(name) in from_file:
            values[name], origins[name] = from_file[_dashed(name)], f"file {file}"
        else:
            values[name], origins[name] = spec.default, "default"
        values[name] = _converted(values[name], spec.default, origins[name])
    return Resolved(group(**values), origins)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InvalidConfig(f"settings file {file} does not exist") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"settings file {file} cannot be read: {error}") from error


def _converted(value: Any, default: Any, origin: str) -> Any:
    """Bring a value to the type of its default; the environment only knows text."""
    if value is None or default is None or type(value) is type(default):
        return value
    if isinstance(default, bool):
        if str(value).lower() not in _BOOLEANS:
            raise InvalidConfig(f"{origin}: {value!r} is not true or false")
        return _BOOLEANS[str(value).lower()]
    if isinstance(default, int) and not isinstance(value, bool):
        try:
            return int(value)
        except (TypeError, ValueError):
            raise InvalidConfig(f"{origin}: {value!r} is not a whole number") from None
    if isinstance(default, Path) and isinstance(value, str):
        return Path(value)
    if isinstance(default, str) and isinstance(value, (str, int)):
        return str(value)
    raise InvalidConfig(f"{origin}: {value!r} should be {type(default).__name__}")


def _dashed(name: str) -> str:
    return name.replace("_", "-")
