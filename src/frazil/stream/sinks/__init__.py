"""Where the rows of a pipeline go."""
