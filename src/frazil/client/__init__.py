"""A typed Python client of the catalog, and of Lakekeeper where the API is the same."""
