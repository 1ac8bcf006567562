"""From one notebook to its verdicts: pure, without a course, a database or nbgrader."""
