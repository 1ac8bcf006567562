"""From one submission's files to its verdicts, without a course, a database or nbgrader's commands."""
