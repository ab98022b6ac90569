"""A mapping whose values never print: storage configuration, keys among it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class StorageConfig(Mapping[str, str]):
    """Iceberg's storage properties. Read a value by its key; printing shows only the keys."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StorageConfig({', '.join(f'{key}=***' for key in sorted(self._values))})"

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))
