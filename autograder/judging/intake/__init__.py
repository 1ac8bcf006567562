"""Taking a submission in: what a student's folder holds, read within bounds and believed in nothing."""
