"""Tables that stay usable under many small commits: files are merged, snapshots expire."""

from frazil.maintenance.caretaker import Caretaker, Done
from frazil.maintenance.health import Health, table_health
from frazil.maintenance.settings import Maintenance

__all__ = ["Caretaker", "Done", "Health", "Maintenance", "table_health"]
