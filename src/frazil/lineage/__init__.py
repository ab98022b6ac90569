"""Where every table and column came from: plans to lineage, drawn or given to a metadata service."""
