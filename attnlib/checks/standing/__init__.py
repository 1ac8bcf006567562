"""Where a learner stands: what is kept of the checks, and the overview that is made of it."""
