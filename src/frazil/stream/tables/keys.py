"""Keys for the places where a table's files lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from frazil.client import Client, Renewing, VendedCredentials
from frazil.lake.storage import FileStorage
from frazil.stream.config.model import TableSource

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


class SourceKeys:
    """The keys of one table, for reading only; renewed."""

    def __init__(self, client: Client, source: TableSource) -> None:
        self._client = client
        self._source = source
        self._renewing: dict[str, Renewing] = {}

    def places(self, metadata: Mapping[str, Any]) -> tuple[KeyedPlace, ...]:
        """The table's location, and that of its data where it is another."""
        own = str(metadata["location"]).rstrip("/")
        properties: Mapping[str, str] = metadata.get("properties") or {}
        others = {properties[name].rstrip("/") for name in _DATA if name in properties}
        locations = [own, *sorted(place for place in others if not place.startswith(f"{own}/"))]
        return tuple(KeyedPlace(place, self._current(place)) for place in locations)

    def _current(self, location: str) -> VendedCredentials | None:
        if location.startswith(("/", "file:")):
            return None
        if location not in self._renewing:
            self._renewing[location] = Renewing(partial(self._vended, location), _MARGIN)
        return self._renewing[location].current()

    def _vended(self, location: str) -> VendedCredentials:
        source = self._source
        return self._client.tables.credentials(
            source.namespace, source.name, read_only=True, location=location
        )
