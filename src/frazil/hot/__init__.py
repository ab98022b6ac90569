"""Hot tables: a Kafka topic and an Iceberg table that are one table to whoever reads."""

from frazil.hot.declared.declaration import Declaration
from frazil.hot.declared.yaml_tables import declare

__all__ = ["Declaration", "declare"]
