"""What a hot table is: SQL, YAML and Python end in one declaration."""
