"""Where a warehouse puts its tables: the `storage-layout` of a profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from frazil.core.errors import InvalidInput

LAYOUT_TYPES = ("default", "tabular-only", "full-hierarchy")
PLACEHOLDERS = ("{uuid}", "{name}")

_LITERAL = re.compile(r"[A-Za-z0-9_=.-]*")


def check_template(field: str, template: str) -> None:
    """Refuse a template that is not one safe path segment with at least one placeholder."""
    rest = template
    for placeholder in PLACEHOLDERS:
        rest = rest.replace(placeholder, "")
    if rest == template or not _LITERAL.fullmatch(rest) or template.startswith(".") or len(template) > 128:
        raise InvalidInput(
            f"{field}: {template[:80]!r} is not a template. Legal: one path segment of letters, digits, "
            f"'_', '-', '=', '.' (not leading), with at least one of {' and '.join(PLACEHOLDERS)}"
        )


class DefaultLayout(msgspec.Struct, frozen=True, tag_field="type", tag="default"):
    """`<base>/<table uuid>`: flat, and never reused."""


class TabularOnly(msgspec.Struct, frozen=True, tag_field="type", tag="tabular-only"):
    """`<base>/<tabular>`."""

    tabular: str

    def __post_init__(self) -> None:
        check_template("storage-layout.tabular", self.tabular)


class FullHierarchy(msgspec.Struct, frozen=True, tag_field="type", tag="full-hierarchy"):
    """`<base>/<namespace>/.../<tabular>`, one segment for each namespace level."""

    namespace: str
    tabular: str

    def __post_init__(self) -> None:
        check_template("storage-layout.namespace", self.namespace)
        check_template("storage-layout.tabular", self.tabular)


StorageLayout = DefaultLayout | TabularOnly | FullHierarchy


def check_layout_type(raw: Mapping[str, Any]) -> None:
    """Refuse an unknown `storage-layout.type`, listing the legal ones (msgspec's text does not)."""
    layout = raw.get("storage-layout")
    if isinstance(layout, Mapping) and layout.get("type") not in LAYOUT_TYPES:
        legal = ", ".join(LAYOUT_TYPES)
        shown = repr(layout.get("type"))[:80]
        raise InvalidInput(f"storage-layout.type: {shown} is unknown. Legal: {legal}")
