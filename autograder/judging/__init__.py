"""From one submission's files to its verdicts: pure, without a course, a database or nbgrader's commands."""
