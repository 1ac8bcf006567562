"""nbgrader's own commands and its formgrader: what they take from a student's folder, and what they leave there."""
