"""A JobManager's plan as a graph of operators, and the expressions that the SQL planner prints in them."""
