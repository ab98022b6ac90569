"""Hot tables: what a union read costs, how soon a record is seen, and whether freshness is kept."""
