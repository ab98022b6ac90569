"""Real local services for the demo and the tests, started and stopped as child processes."""
