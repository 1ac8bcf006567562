"""The errors that a person can mend: one clear sentence each, shown without a traceback."""


class CourseError(Exception):
    """What is wrong and, where it is known, what would be right."""
