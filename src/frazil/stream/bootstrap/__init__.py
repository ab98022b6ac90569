"""A pipeline that begins with the rows of a table, and goes on with the log where they end."""
