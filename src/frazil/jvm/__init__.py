"""Java and the jars of the engines: found, fetched once, verified."""
