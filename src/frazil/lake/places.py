"""Keys for the places where a table's files lie, for those who only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from frazil.client import Client, Renewing, VendedCredentials
from frazil.lake.storage import FileStorage, is_local

#: A job may take so many seconds with keys that were renewed before it.
_MARGIN = 1800.0
_DATA = ("write.data.path", "write.object-storage.path")


@dataclass(frozen=True)
class KeyedPlace:
    """A location and what opens it; None on the local disk."""

    location: str
    keys: VendedCredentials | None = field(repr=False)

    def storage(self) -> FileStorage:
        return FileStorage.of(self.location, self.keys)

    def covers(self, path: str) -> bool:
        return path.startswith(f"{self.location}/")


def nearest(places: Sequence[KeyedPlace], path: str) -> KeyedPlace:
    """The one above the path; the table's own where there is none."""
    covering = [place for place in places if place.covers(path)]
    return max(covering, key=lambda place: len(place.location), default=places[0])


class ReadKeys:
    """The keys of one table, for reading only; renewed."""

    def __init__(self, client: Client, namespace: tuple[str, ...], name: str) -> None:
        self._client = client
        self._table = (namespace, name)
        self._renewing: dict[str, Renewing] = {}

    def places(self, metadata: Mapping[str, Any]) -> tuple[KeyedPlace, ...]:
        """The table's location, and that of its data where it is another."""
        own = str(metadata["location"]).rstrip("/")
        properties: Mapping[str, str] = metadata.get("properties") or {}
        others = {properties[name].rstrip("/") for name in _DATA if name in properties}
        locations = [own, *sorted(place for place in others if not f"{place}/".startswith(f"{own}/"))]
        return tuple(KeyedPlace(place, self._current(place)) for place in locations)

    def _current(self, location: str) -> VendedCredentials | None:
        if is_local(location):
            return None
        if location not in self._renewing:
            self._renewing[location] = Renewing(partial(self._vended, location), _MARGIN)
        return self._renewing[location].current()

    def _vended(self, location: str) -> VendedCredentials:
        return self._client.tables.credentials(*self._table, read_only=True, location=location)


class PlacedFiles:
    """The `Inputs` of a table: each place is opened once."""

    def __init__(self, places: Sequence[KeyedPlace]) -> None:
        self._places = tuple(places)
        self._opened: dict[str, FileStorage] = {}

    def open_input(self, path: str) -> pa.NativeFile:
        return self._of(path).open_input(path)

    def reading(self, path: str) -> AbstractContextManager[None]:
        return self._of(path).reading(path)

    def _of(self, path: str) -> FileStorage:
        place = nearest(self._places, path)
        if place.location not in self._opened:
            self._opened[place.location] = place.storage()
        return self._opened[place.location]
