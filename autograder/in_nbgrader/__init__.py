"""nbgrader's own commands and its formgrader, and how they handle what is in a student's folder."""
