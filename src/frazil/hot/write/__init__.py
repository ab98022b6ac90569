"""Rows and deletes into the log of a hot table."""
