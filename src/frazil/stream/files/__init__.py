"""Files that arrive in a folder or bucket: found, taken once by name and version, and read in tasks."""
