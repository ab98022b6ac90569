"""The catalog's SQL, one module for each kind of thing."""
