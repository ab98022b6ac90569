"""Recipes of DataHub, read without it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from frazil.core.errors import InvalidConfig

#: DataHub's own part, and what the command line always gives: variables in them need not be set.
_UNUSED = {"source.config.stateful_ingestion", "source.config.connection.rest_api_url"}
_VARIABLE = re.compile(
    r"\\(?P<itself>[\\$])"
    r"|\$(?P<bare>\w+)"
    r"|\$\{(?P<name>\w+)(?::?(?P<operator>[-=+?])(?P<word>(?:[^{}]|\{[^{}]*\})*))?\}"
    r"|(?P<other>\$[{$])"
)


def read_recipe(file: Path) -> dict[str, Any]:
    """The settings in `source.config` that are used here.

    Variables of the environment are put in as DataHub does: `${NAME}`, which must be set, and
    `${NAME:-default}` anywhere in a text, `$NAME` in one that begins with it.
    """
    try:
        import yaml
    except ImportError:
        raise InvalidConfig("--recipe needs PyYAML: pip install 'frazil[datahub]'") from None
    try:
        document = yaml.safe_load(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise InvalidConfig(f"{file} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise InvalidConfig(f"{file} is not YAML: {error}") from None
    source = document.get("source") if isinstance(document, Mapping) else None
    config = source.get("config") if isinstance(source, Mapping) else None
    if not isinstance(config, dict):
        raise InvalidConfig(f"{file} is not a recipe of DataHub: it has no source.config")
    return _resolved_group(config, "source.config")


def _resolved_group(group: dict[Any, Any], place: str) -> dict[Any, Any]:
    """Names are taken as they are."""
    return {
        name: _resolved(value, f"{place}.{name}")
        for name, value in group.items()
        if f"{place}.{name}" not in _UNUSED
    }


def _resolved(value: Any, place: str) -> Any:
    match value:
        case dict():
            return _resolved_group(value, place)
        case list():
            return [_resolved(item, f"{place}[{number}]") for number, item in enumerate(value)]
        case str():
            return _resolved_text(value, place)
    return value


def _resolved_text(text: str, place: str) -> str:
    if re.search(r"^\$\{|\$\{.+\}", text):
        return _expanded(text, place)
    if text.startswith("$"):
        # It may as well be a password.
        with suppress(InvalidConfig):
            return _expanded(text, place)
    return text


def _expanded(text: str, place: str, *, unset: str | None = None) -> str:
    """With values for variables, as a shell puts them in; one that is empty counts as not set for operators.

    `unset` is what stands for a variable that is not set; None if that is an error.
    """

    def value(match: re.Match[str]) -> str:
        if match["itself"]:
            return match["itself"]
        if match["other"]:
            raise InvalidConfig(
                f"--recipe: {place}: a variable is ${{NAME}} or ${{NAME:-default}}, a dollar sign is \\$"
            )
        name = match["bare"] or match["name"]
        found = os.environ.get(name, unset)
        # A default may name variables, and those may be missing.
        word = _expanded(match["word"] or "", place, unset="")
        match match["operator"]:
            case "-" | "=":
                return found or word
            case "+":
                return word if found else ""
            case "?" if not found:
                raise InvalidConfig(f"--recipe: {place}: {name}: {word or 'not set'}")
        if found is None:
            raise InvalidConfig(f"--recipe: {place}: the environment variable {name} is not set")
        return found

    return _VARIABLE.sub(value, text)
