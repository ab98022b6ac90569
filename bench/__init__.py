"""Benchmarks; each ends with lines `RESULT <name> <value> <goal> ok|short`."""
