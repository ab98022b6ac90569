"""Options that are made from a settings dataclass, so that flag, environment and file stay the same."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from frazil.core.settings import Resolved, resolve

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def settings_options(group: type, *names: str) -> Callable[[F], F]:
    """Add an option for each named setting of `group` (all, if none is named), and `--config`."""

    def decorate(command: F) -> F:
        specs = [spec for spec in dataclasses.fields(group) if not names or spec.name in names]
        specs = [spec for spec in specs if spec.metadata["flag"]]
        for spec in reversed(specs):
            command = _option(spec)(command)
        config = click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="FRAZIL_CONFIG",
            help="TOML file with settings (keys are the names of these options).",
        )
        return config(command)

    return decorate


def resolved(group: type[T], config_file: Path | None, flags: dict[str, Any]) -> Resolved[T]:
    """Settings from flags, `FRAZIL_*` and the file, in this order."""
    return resolve(group, flags=flags, environment=os.environ, file=config_file)


def _option(spec: dataclasses.Field[Any]) -> Callable[[F], F]:
    flag = "--" + spec.name.replace("_", "-")
    default = "" if spec.default is None else f"  [default: {spec.default}]"
    text = f"{spec.metadata['about']}{default}"
    if isinstance(spec.default, bool):
        return click.option(f"{flag}/--no-{flag[2:]}", spec.name, default=None, help=text)
    kind: Any = (
        int
        if isinstance(spec.default, int)
        else click.Path(path_type=Path)
        if spec.name == "data_dir"
        else str
    )
    return click.option(flag, spec.name, type=kind, default=None, help=text)
