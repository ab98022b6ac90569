"""One event to many observers."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.stream.events import Event, Observer


class Observers:
    """Passes each event on, in the given order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def notify(self, event: Event) -> None:
        for observer in self._observers:
            observer.notify(event)
