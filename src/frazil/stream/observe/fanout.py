"""One event to many observers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from frazil.stream.events import Event, Observer

_logger = logging.getLogger(__name__)


class Observers:
    """Passes each event on, in the given order. An error of one is logged: it is not the pipeline's."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def notify(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer.notify(event)
            except Exception:
                _logger.exception("an observer failed at %s", event)
