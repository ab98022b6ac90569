"""Made-up sensor readings: a source that needs nothing but a clock."""

from frazil.stream.sensors.readings import SENSOR_SCHEMA, json_records, readings

__all__ = ["SENSOR_SCHEMA", "json_records", "readings"]
