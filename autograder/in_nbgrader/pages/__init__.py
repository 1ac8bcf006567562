"""nbgrader's pages of a submission: nothing in them is markup but what its templates write and what was cleaned."""
