"""Change data capture: databases into tables, row by row."""
