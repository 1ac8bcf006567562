"""nbgrader's pages of a submission, whose only markup is their templates' own and what was cleaned."""
